-- name: interaction.columns
i.id, i.namespace, i.agent, i.principal, i.name, i.channel, i.action, i.status, i.reason, i.provider, i.model, i.took_ms,
  i.conversation, i.at, i.texts, i.input, i.output, i.input_digest, i.output_digest, i.created_at, i.updated_at, i.origin,
  i.version, i.state
-- name: interaction_put
insert into interaction (id, namespace, agent, principal, name, channel, action, status, reason, provider, model, took_ms,
  conversation, at, texts, input, output, input_digest, output_digest, created_at, updated_at, origin, version, state, field_versions)
values (:id, :namespace, :agent, :principal, :name, :channel, :action, :status, :reason, :provider, :model, :took_ms,
  :conversation, :at, :texts, :input, :output, :input_digest, :output_digest, :created_at, :updated_at, :origin, :version, :state,
  :field_versions)
on conflict (id) do update set principal = excluded.principal, name = excluded.name, channel = excluded.channel,
  action = excluded.action, reason = excluded.reason, conversation = excluded.conversation, texts = excluded.texts,
  input = excluded.input, output = excluded.output, input_digest = excluded.input_digest,
  output_digest = excluded.output_digest, updated_at = excluded.updated_at, version = excluded.version, state = excluded.state,
  field_versions = excluded.field_versions
where interaction.version = :expected returning version
-- name: interaction_field_versions
select field_versions from interaction where id = :id
-- name: interaction_get
select {interaction.columns} from interaction i where i.id = :id
-- name: interaction_all
select {interaction.columns} from interaction i where i.id > :after order by i.id limit :limit
-- name: interaction_of_people
select {interaction.columns} from interaction i where i.principal = any(:names) and i.state = 'live'
-- name: interaction_old
-- Interactions recorded before a time and not erased yet.
select {interaction.columns} from interaction i where i.created_at < :before and i.state = 'live'
order by i.created_at, i.id limit :limit
-- name: interaction_select
select {interaction.columns} from interaction i where true
-- name: interaction_counts
select i.status, count(*) from interaction i where true
-- name: interaction.of_agent
 and (i.agent = :agent or i.principal = any(:mine))
-- name: interaction.reach_first
 and ((i.namespace = :reach_n or (i.namespace >= :reach_n || '/' and i.namespace < :reach_n || '0'))
-- name: interaction.reach_more
 or (i.namespace = :reach_n or (i.namespace >= :reach_n || '/' and i.namespace < :reach_n || '0'))
-- name: interaction.reach_end
 )
-- name: interaction.of_principal
 and i.principal = any(:principals)
-- name: interaction.status
 and i.status = any(:statuses)
-- name: interaction.channel
 and i.channel = :channel
-- name: interaction.in
 and i.namespace = :namespace
-- name: interaction.since
 and i.at >= :since
-- name: interaction.until
 and i.at < :until
-- name: interaction.page
 order by i.at desc, i.id desc limit :limit offset :skip
-- name: interaction.grouped
 group by i.status order by i.status
-- name: job_watermark_get
select at from job_watermark where name = :name
-- name: job_watermark_put
insert into job_watermark (name, at) values (:name, :at) on conflict (name) do update set at = excluded.at
