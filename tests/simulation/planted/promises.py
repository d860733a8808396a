"""Which planted bugs break which promise of ``docs/replication.md``, and which checker finds which.

Each row has at least two. A bug may be in several rows, and is in one at least.
"""

from collections.abc import Mapping
from typing import Final

BROKEN_BY: Final[Mapping[str, str]] = {
    # the table of rules
    "A vote or an acknowledgement of records is sent when the writes that it depends on are"
    " synced": """
        vote_sent_before_its_sync acknowledged_before_sync unsynced_records_acknowledged
        snapshot_acknowledged_before_its_sync sent_before_synced""",
    "A leader sends its batches before its own sync; its own copy counts after the sync": """
        own_copy_counts_unsynced batches_wait_for_the_own_sync""",
    "A sync that began before a truncation does not cover the records written after it": """
        truncation_forgotten_by_syncs truncated_records_still_on_disk sync_covers_later_writes""",
    "One vote per epoch, written before it is sent": """
        vote_not_persisted two_votes_in_an_epoch candidate_votes_for_another votes_not_synced
        vote_remembered_into_the_next_epoch votes_carried_over_an_epoch late_votes_count
        epoch_not_bumped vote_kept_for_the_epoch_of_a_leader""",
    "A vote only for a log that has at least as much": """
        incomplete_candidate_elected longer_log_of_an_older_epoch_elected
        shorter_log_of_the_same_epoch_elected""",
    "A node that is cut off does not increase epochs (pre-vote)": """
        pre_vote_skipped pre_vote_taken_for_a_vote pre_votes_count""",
    "A newer epoch ends an older leader": """
        newer_epoch_ignored_by_a_leader older_epochs_heard""",
    "Logs that agree in one record agree before it": """
        logs_not_matched follower_acknowledges_its_whole_log follower_believes_the_watermark""",
    "Records that differ from the leader's log are truncated, but never committed ones": """
        truncation_not_written snapshot_taken_over_a_longer_log
        truncation_and_appends_not_synced""",
    "A record is committed when a majority of the voters has it on disk, and not before a record"
    " of the leader's own epoch": """
        commit_by_one_less commit_without_own_epoch refusals_count_as_matches learner_counts""",
    "That record comes first: LeaderChange": """
        epoch_begun_without_a_record commit_without_own_epoch""",
    "Voters change one at a time; a change counts from its record on and is undone with it": """
        voters_change_one_upon_another two_voters_change_at_once voters_not_undone
        voters_change_before_the_own_record""",
    "An answer waits for the records of its own group": """
        reply_before_commit offset_delete_unwaited leave_unwaited consumer_heartbeat_unwaited
        share_heartbeat_unwaited streams_heartbeat_unwaited delete_groups_unwaited
        describe_groups_unwaited list_groups_unwaited offset_fetch_waits_for_another_group
        catalog_answers_unwaited catalog_shown_before_commit offset_deletion_forgotten
        epoch_not_persisted share_epoch_not_persisted streams_epoch_not_persisted""",
    "A new leader sends no reply before its own record is committed": """
        floor_ignored promoted_without_the_tail""",
    "Every answer about a group needs the lease": """
        lease_ignored memo_outlives_its_lease answers_repeated_for_ever""",
    # its paragraphs
    "Lease and promise": """
        promise_not_kept promise_forgotten_by_restart promise_as_short_as_the_lease
        promise_only_by_those_with_the_log snapshots_bind_nobody margin_of_the_promise_halved
        lease_from_the_answer_on lease_of_a_minority lease_twice_as_long learners_renew_the_lease
        leader_votes_under_its_lease""",
    "Clocks": """
        clocks_that_moved_apart_believed doubt_ignored doubt_at_its_edge expiry_with_any_clock
        own_clock_believed offsets_expire_early""",
    "Idle partitions": """
        requests_do_not_wake_the_lease requests_wake_the_lease_for_one_round
        leader_rests_while_a_voter_is_away leader_rests_too_long""",
    "Transfer of leadership": """
        lease_kept_while_handing_over handed_over_before_all_is_sent
        lease_renewed_after_the_transfer leadership_kept_after_the_transfer
        transfer_frees_from_every_promise""",
    "Formation": """
        learner_counts learner_promoted_behind learners_renew_the_lease incarnation_ignored
        two_voters_change_at_once""",
    "Stale directories": """
        copy_opened heard_before_judged stale_copies_trusted starts_not_remembered""",
    "Kinds of partitions": """
        share_call_unwaited share_write_unwaited share_read_unwaited catalog_answers_unwaited""",
    "Healing": """
        set_aside_without_a_majority set_aside_when_one_has_everything learners_taken_for_voters
        catalogue_set_aside_unasked voters_complete_that_are_behind""",
    "Acknowledged": """
        acknowledged_before_sync truncation_and_appends_not_synced votes_not_synced""",
    "The controller only advises": """
        campaign_stands_at_once campaign_without_regard_to_the_promise""",
    # the table of faults
    "The leader is killed": """
        sessions_not_renewed sessions_not_armed_after_election nobody_stands_again
        static_replacement_not_replayed uncommitted_applied_by_standby tombstones_not_replayed
        deleted_topics_forgotten_by_new_leaders""",
    "The leader is frozen, or cut off from its peers": """
        lease_ignored waiting_forgotten_after_demotion waiting_answered_after_demotion
        deferred_requests_forgotten refused_twice""",
    "It had applied records that are then lost": """
        dirty_machine_kept demoted_machine_kept""",
    "A follower is away": """
        last_slice_dropped snapshot_installed_over_the_same_log tombstones_not_compacted""",
    "A majority is away": """
        commit_by_one_less lease_of_a_minority""",
    "A directory is put back from a copy": """
        copy_opened stale_copies_trusted heard_before_judged""",
    "A disk is slow": """
        unleased_leader_stays patience_without_a_lease_begins_anew
        unsynced_records_acknowledged""",
    "A disk is full, damaged or gone": """
        full_disk_taken_for_written set_aside_without_a_majority incarnation_ignored
        misdirected_sector_believed""",
    "Messages are lost, duplicated or late": """
        late_votes_count refusals_count_as_matches logs_not_matched lease_from_the_answer_on""",
    "A stranger calls": """
        proofs_not_compared proofs_hold_for_either_role""",
    # what members are promised
    "a partition or an active task has one owner at a time": """
        unreleased_partition_handed_out revocation_not_awaited target_slice_applied_early
        upgrade_forgets_who_owns_what downgrade_takes_targets_for_owned
        downgrade_forgets_what_members_have zombie_commits fenced_members_heard
        removed_members_commit one_target_for_all_members streams_task_active_twice
        streams_revocation_not_awaited""",
    "a member of a share group gets only partitions whose share state is initialized, and each of"
    " them is assigned to somebody in the end": """
        share_assigned_before_initialized share_partition_for_nobody share_not_withdrawn""",
    "no process of a streams group has a task twice, and the tasks of a static member that is away"
    " are kept for it": """
        streams_standby_beside_active streams_processes_unknown_to_assignor
        streams_standby_beside_what_stays static_streams_member_starts_empty
        static_streams_member_gives_up_when_away static_streams_member_removed_when_away
        streams_warmup_never_ends streams_warmup_of_own_task""",
    "no acknowledged share state is lost or rolled back, and old state and leader epochs are"
    " fenced": """
        share_state_forgotten share_state_of_odd_partitions_forgotten
        share_state_of_later_partitions_forgotten
        share_update_lost_in_snapshot share_leader_epoch_not_fenced share_state_epoch_not_fenced
        share_leader_epoch_not_kept""",
}
"""The promises in the words of the page, which a test reads from there."""
