-- name: subscription.oldest
 order by t.created_at, t.id limit :limit
-- name: subscription.of_agent
 and t.agent = :agent
-- name: subscription.active
 and t.state = 'active'
-- name: subscription.due
-- Due and not leased by another process.
 and t.ready_at <= :now and (t.lease_until <= :now or t.owner = :owner) order by t.ready_at, t.id
-- name: subscription_status
-- With the numbers of events waiting for a retry and of dead letters.
select s.id, s.agent, s.state, s.why, s.place, count(case when d.state = 'waiting' then 1 end),
  count(case when d.state = 'dead' then 1 end)
from subscription s left join delivery d on d.subscription = s.id and d.state <> 'delivered'
where s.agent = coalesce(:agent, s.agent) group by s.id order by s.created_at, s.id
-- name: subscription_slowest
-- The smallest position of all active subscriptions.
select min(s.place) from subscription s where s.state = 'active'
-- name: subscription_claim
-- Fails if another process claimed it since it was read: that raised the token.
update subscription set owner = :owner, token = token + 1, lease_until = :until
where id = :id and state = 'active' and token = :token and (lease_until <= :now or owner = :owner) returning token
-- name: subscription_extend_lease
update subscription set lease_until = :until where id = :id and token = :token
-- name: subscription_record_attempt
-- Only by the lease holder.
update subscription set place = :place, state = :state, why = :why, ready_at = :ready_at,
  lease_until = :until, delivered = delivered + :delivered, dead = dead + :dead, last_error = :last_error, last_at = :now,
  updated_at = :now
where id = :id and token = :token and state = 'active' returning delivered + dead
-- name: subscription_advance
-- Skip changes that the subscription does not match.
update subscription set place = :place where id = :id and place = :was and token = :token
-- name: subscription_end
update subscription set state = 'ended', why = :why, updated_at = :now where id = :id
-- name: subscription_restart
-- Restart at a position immediately; reactivates an ended subscription and invalidates attempts in flight.
update subscription set place = :place, state = 'active', why = null, ready_at = :now, lease_until = 0, token = token + 1,
  updated_at = :now
where id = :id
-- name: delivery.next
 and t.subscription = :subscription and t.state = 'waiting' order by t.seq limit 1
-- name: delivery.latest
 and t.subscription = any(:subscriptions) and t.state = any(:states) order by t.at desc, t.seq desc limit :limit
-- name: delivery.dead
 and t.subscription = :subscription and t.state = 'dead'
-- name: delivery_requeue
-- Requeue dead letters with no attempts.
update delivery set state = 'waiting', attempts = 0 where subscription = :subscription and seq = any(:seqs) and state = 'dead'
returning seq
-- name: delivery_requeue_all
update delivery set state = 'waiting', attempts = 0 where subscription = :subscription and state = 'dead' returning seq
-- name: delivery_withdraw
-- Drop pending deliveries after a position; the journal provides them again.
delete from delivery where subscription = :subscription and seq > :place and state = 'waiting'
-- name: delivery_prune
delete from delivery where subscription = :subscription and state = 'delivered' and number <= :number
