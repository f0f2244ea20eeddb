-- name: reflected_sources
-- Which of some memories are sources of a live reflection.
select distinct l.target from link l join memory m on m.id = l.source
where l.target = any(:ids) and l.relation = 'reflects_on' and l.state = 'live' and (l.valid_until is null or l.valid_until > :now)
  and m.state = 'live'
