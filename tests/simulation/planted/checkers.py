"""Which planted bugs each checker of the simulator was seen to find.

A checker is a class or function of ``failover.simulation`` that raises a Violation. Another one may
be quicker in another run.
"""

from collections.abc import Mapping
from typing import Final

FOUND_BY: Final[Mapping[str, str]] = {
    "Administrator": """
        deleted_group_keeps_offsets offsets_never_expire offsets_expire_early
        offsets_of_members_expire offset_deletion_forgotten""",
    "AnyAnswer": """
        description_of_an_unknown_group_raises deletion_of_an_unknown_offset_raises
        who_leaves_is_away_for_a_while""",
    "ClientHistoryChecker": "commit_without_own_epoch sessions_expire_early fenced_members_heard",
    "CommitAnswers": "zombie_commits removed_members_commit",
    "Downgrades": "downgrade_takes_targets_for_owned downgrade_forgets_what_members_have",
    "Epochs": "classic_member_told_by_group_epoch streams_epoch_falls",
    "Evidence": """
        reply_before_commit promise_forgotten_by_restart floor_ignored catalog_shown_before_commit
        waiting_answered_after_demotion lease_kept_while_handing_over offset_delete_unwaited
        leave_unwaited consumer_heartbeat_unwaited delete_groups_unwaited describe_groups_unwaited
        list_groups_unwaited offset_fetch_waits_for_another_group catalog_answers_unwaited
        promise_as_short_as_the_lease memo_outlives_its_lease margin_of_the_promise_halved
        share_heartbeat_unwaited share_call_unwaited share_write_unwaited share_read_unwaited
        streams_heartbeat_unwaited""",
    "Handover": """
        unreleased_partition_handed_out revocation_not_awaited upgrade_forgets_who_owns_what
        sessions_not_renewed static_streams_member_gives_up_when_away
        static_streams_member_removed_when_away""",
    "Liveness": "nobody_stands_again summary_never_answered",
    "ModernAnswers": "static_streams_member_starts_empty answered_as_another_member",
    "Oversize": "long_metadata_committed large_member_refused_with_another_error",
    "Process": "answered_twice refused_twice",
    "Replicated": """
        vote_not_persisted truncation_not_written acknowledged_before_sync commit_by_one_less
        unsynced_records_acknowledged vote_sent_before_its_sync own_copy_counts_unsynced
        sync_covers_later_writes epoch_not_bumped votes_carried_over_an_epoch pre_votes_count
        votes_not_synced full_disk_taken_for_written sent_before_synced heard_before_judged
        truncation_and_appends_not_synced refusals_count_as_matches stale_copies_trusted
        starts_not_remembered""",
    "Rules": """
        learner_counts lease_ignored promise_not_kept incomplete_candidate_elected logs_not_matched
        lease_from_the_answer_on lease_of_a_minority lease_twice_as_long two_votes_in_an_epoch
        incarnation_ignored follower_acknowledges_its_whole_log follower_believes_the_watermark
        vote_remembered_into_the_next_epoch voters_not_undone learners_renew_the_lease
        candidate_votes_for_another snapshot_acknowledged_before_its_sync demoted_machine_kept
        doubt_ignored doubt_at_its_edge leader_votes_under_its_lease""",
    "ShareAssignments": "share_assigned_before_initialized share_not_withdrawn",
    "ShareStateChecker": """
        share_state_forgotten share_update_lost_in_snapshot share_leader_epoch_not_fenced
        share_state_epoch_not_fenced share_leader_epoch_not_kept""",
    "SimulatedCluster": """
        set_aside_without_a_majority set_aside_when_one_has_everything
        voters_complete_that_are_behind""",
    "States": """
        static_replacement_not_replayed uncommitted_applied_by_standby dirty_machine_kept
        last_slice_dropped epoch_not_persisted sessions_not_armed_after_election
        tombstones_not_replayed tombstones_not_compacted who_left_comes_back
        sessions_never_expire failed_group_not_rebuilt promoted_without_the_tail
        share_epoch_not_persisted streams_epoch_not_persisted""",
    "TargetProgress": "target_slice_applied_early one_target_for_all_members",
    "VoterChanges": """
        voters_change_one_upon_another two_voters_change_at_once learner_promoted_behind""",
    "_computed": "stale_assignment_applied streams_stale_assignment_applied",
    "_has_answered_all": """
        requests_left_unanswered description_never_answered waiting_forgotten_after_demotion
        deferred_requests_forgotten""",
    "_has_fresh_matches": "regexes_never_refreshed regexes_refreshed_late",
    "_has_its_share_state": """
        share_state_of_odd_partitions_forgotten share_state_of_later_partitions_forgotten""",
    "_has_no_deleted_share_state": """
        share_state_of_deleted_topics_kept share_state_kept_until_the_next_election""",
    "_has_no_deleted_topics": """
        deleted_topics_keep_offsets deleted_topics_forgotten_by_new_leaders""",
    "_has_promised": "promise_only_by_those_with_the_log snapshots_bind_nobody",
    "_is_complete": "parts_of_an_answer_lost last_group_of_an_answer_lost",
    "_is_spread": """
        streams_standby_beside_active streams_processes_unknown_to_assignor
        streams_standby_beside_what_stays streams_warmup_of_own_task""",
    "_read_all": "simple_consumers_cannot_read offsets_of_two_topics_cannot_be_read",
    "empty": "classic_sessions_prolonged modern_sessions_prolonged",
    "run_seed": """
        snapshot_taken_over_a_longer_log own_epoch_joined_again misdirected_sector_believed""",
    "settle": """
        static_successor_loses_its_share answers_repeated_for_ever workers_told_too_little
        share_epoch_falls streams_task_active_twice streams_warmup_never_ends""",
}
