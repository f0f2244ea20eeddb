-- Plain names for tables, columns and indexes. No row is rewritten.
-- The head first: whoever writes has a lock on it, so nobody writes from here on.
alter table chain rename to journal_head;
alter table heard rename to version_vector;
alter table followed rename to sync_cursor;
alter table relayed rename to remote_change;
alter table author rename to replica;
alter table dropped rename to quarantine_dropped;
alter table unreplicated rename to sync_pending_ack;
alter table told rename to ai_memory_state;
alter table floor rename to compaction_point;
alter table folded rename to compacted_record;
alter table base rename to baseline;
alter table kept rename to meta;
alter table last_done rename to job_watermark;
alter table access rename to memory_access;
alter table forgotten rename to erased_person;
alter table restated rename to duplicate_count;
alter table mined rename to imported_statement;
alter table memory_gist rename to lsh_band;
alter table curate_done rename to curate_mark;
alter table curate_offer rename to curate_proposal;
alter table reflection_offer rename to reflection_proposal;

alter table memory rename column shown to visible_as;
alter table memory rename column strand to thread_key;
alter table memory rename column spot to position;
alter table memory rename column spelled to bigrams;
alter table memory rename column parsed to index_terms;

alter table memory rename column cells to field_versions;
alter table link rename column cells to field_versions;
alter table alias rename column cells to field_versions;
alter table memory_grant rename column cells to field_versions;
alter table standard rename column cells to field_versions;
alter table agent rename column cells to field_versions;
alter table invalidation rename column cells to field_versions;
alter table policy rename column cells to field_versions;
alter table skill_version rename column cells to field_versions;
alter table skill rename column cells to field_versions;
alter table principal rename column cells to field_versions;
alter table interaction rename column cells to field_versions;
alter table erasure rename column cells to field_versions;
alter table compacted_record rename column cells to field_versions;

-- When something was recorded in this store.
alter table journal rename column kept_at to recorded_at;
alter table journal_head rename column kept_at to recorded_at;
alter table compaction_point rename column kept_at to recorded_at;
alter table quarantine rename column kept_at to recorded_at;

alter table compaction_point rename column folded_at to compacted_at;
-- How many entries were removed, and the sum of those that remain.
alter table compaction_point rename column dropped to removed_entries;
alter table compaction_point rename column kept to remaining_sum;
alter table replica rename column learnt_at to learned_at;
-- The text that the author signed; null if the journal has it word for word.
alter table remote_change rename column said to exact_body;
alter table imported_statement rename column said to utterance_digest;
alter table duplicate_count rename column restated_at to last_at;
alter table curate_proposal rename column offered_at to proposed_at;
alter table reflection_proposal rename column offered_at to proposed_at;
-- Ids of the memories that a session was given, and digests of its last turns.
alter table hook_session rename column given to given_ids;
alter table hook_session rename column said to turn_digests;
alter table subscription rename column held_until to lease_until;
