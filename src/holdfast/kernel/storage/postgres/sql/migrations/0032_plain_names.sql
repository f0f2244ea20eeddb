
alter index memory_strand rename to memory_thread_key;
alter index memory_shared rename to memory_visible_as;
alter index memory_said rename to memory_time;
alter index base_seq rename to baseline_seq;
alter index mined_said rename to imported_statement_utterance;
alter index curate_done_memory rename to curate_mark_memory;
alter index curate_offer_status rename to curate_proposal_status;
alter index curate_offer_run rename to curate_proposal_run;
alter index curate_offer_memory rename to curate_proposal_memory;
alter index curate_offer_other rename to curate_proposal_other;
alter index interaction_kept rename to interaction_created;

-- Constraints are named after their tables.
alter table journal_head rename constraint chain_pkey to journal_head_pkey;
alter table version_vector rename constraint heard_pkey to version_vector_pkey;
alter table sync_cursor rename constraint followed_pkey to sync_cursor_pkey;
alter table remote_change rename constraint relayed_pkey to remote_change_pkey;
alter table replica rename constraint author_pkey to replica_pkey;
alter table quarantine_dropped rename constraint dropped_pkey to quarantine_dropped_pkey;
alter table sync_pending_ack rename constraint unreplicated_pkey to sync_pending_ack_pkey;
alter table ai_memory_state rename constraint told_pkey to ai_memory_state_pkey;
alter table compaction_point rename constraint floor_pkey to compaction_point_pkey;
alter table compacted_record rename constraint folded_pkey to compacted_record_pkey;
alter table baseline rename constraint base_pkey to baseline_pkey;
alter table meta rename constraint kept_pkey to meta_pkey;
alter table job_watermark rename constraint last_done_pkey to job_watermark_pkey;
alter table memory_access rename constraint access_pkey to memory_access_pkey;
alter table memory_access rename constraint access_memory_fkey to memory_access_memory_fkey;
alter table erased_person rename constraint forgotten_pkey to erased_person_pkey;
alter table duplicate_count rename constraint restated_pkey to duplicate_count_pkey;
alter table duplicate_count rename constraint restated_memory_fkey to duplicate_count_memory_fkey;
alter table imported_statement rename constraint mined_pkey to imported_statement_pkey;
alter table lsh_band rename constraint memory_gist_pkey to lsh_band_pkey;
alter table curate_mark rename constraint curate_done_pkey to curate_mark_pkey;
alter table curate_mark rename constraint curate_done_memory_fkey to curate_mark_memory_fkey;
alter table curate_proposal rename constraint curate_offer_pkey to curate_proposal_pkey;
alter table curate_proposal rename constraint curate_offer_memory_fkey to curate_proposal_memory_fkey;
alter table curate_proposal rename constraint curate_offer_other_fkey to curate_proposal_other_fkey;
alter table reflection_proposal rename constraint reflection_offer_pkey to reflection_proposal_pkey;

-- Listeners are notified of a new head when it is committed.
drop trigger chain_moved on journal_head;
drop function chain_moved();
create function journal_head_moved() returns trigger language plpgsql as $$
begin
  perform pg_notify('holdfast_' || TG_RELID, new.seq::text);
  return null;
end
$$;
create trigger journal_head_moved after update of hash on journal_head for each row execute function journal_head_moved();
