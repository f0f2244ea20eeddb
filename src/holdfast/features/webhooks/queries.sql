-- name: subscription.columns
s.id, s.agent, s.reach, s.key_id, s.url, s.events, s.namespace, s.by_agent, s.secret, s.state, s.why, s.place, s.ready_at,
  s.owner, s.token, s.lease_until, s.delivered, s.dead, s.last_error, s.last_at, s.created_at, s.updated_at
-- name: subscription_add
insert into subscription (id, agent, reach, key_id, url, events, namespace, by_agent, secret, state, why, place, ready_at, owner,
  token, lease_until, delivered, dead, last_error, last_at, created_at, updated_at)
values (:id, :agent, :reach, :key_id, :url, :events, :namespace, :by_agent, :secret, :state, :why, :place, :ready_at, :owner,
  :token, :lease_until, :delivered, :dead, :last_error, :last_at, :created_at, :updated_at)
-- name: subscription_list
select {subscription.columns} from subscription s order by s.created_at, s.id limit :limit
-- name: subscription_of_agent
select {subscription.columns} from subscription s where s.agent = :agent order by s.created_at, s.id limit :limit
-- name: subscription_status
-- With the numbers of events waiting for a retry and of dead letters.
select s.id, s.agent, s.state, s.why, s.place, count(case when d.state = 'waiting' then 1 end),
  count(case when d.state = 'dead' then 1 end)
from subscription s left join delivery d on d.subscription = s.id and d.state <> 'delivered'
where s.agent = coalesce(:agent, s.agent) group by s.id order by s.created_at, s.id
-- name: subscription_get
select {subscription.columns} from subscription s where s.id = :id
-- name: subscription_due
-- Subscriptions that are due and not leased by another process.
select {subscription.columns} from subscription s
where s.state = 'active' and s.ready_at <= :now and (s.lease_until <= :now or s.owner = :owner) order by s.ready_at, s.id
-- name: subscription_slowest
-- The smallest position of all active subscriptions.
select min(s.place) from subscription s where s.state = 'active'
-- name: subscription_count
select count(*) from subscription s where s.agent = :agent and s.state = 'active'
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
-- name: subscription_remove
delete from subscription where id = :id
-- name: delivery.columns
d.subscription, d.seq, d.event, d.record, d.state, d.attempts, d.status, d.error, d.at, d.number
-- name: delivery_put
insert into delivery (subscription, seq, event, record, state, attempts, status, error, at, number)
values (:subscription, :seq, :event, :record, :state, :attempts, :status, :error, :at, :number)
on conflict (subscription, seq) do update set event = excluded.event, record = excluded.record, state = excluded.state,
  attempts = excluded.attempts, status = excluded.status, error = excluded.error, at = excluded.at, number = excluded.number
-- name: delivery_next
select {delivery.columns} from delivery d where d.subscription = :subscription and d.state = 'waiting'
order by d.seq limit 1
-- name: delivery_page
select {delivery.columns} from delivery d where d.subscription = any(:subscriptions) and d.state = any(:states)
order by d.at desc, d.seq desc limit :limit
-- name: delivery_dead
select count(*) from delivery d where d.subscription = :subscription and d.state = 'dead'
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
-- name: delivery_remove
delete from delivery where subscription = :subscription
