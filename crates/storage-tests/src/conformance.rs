//! The list of all behaviours.

/// Makes a test of every behaviour, for the store that a [`Fixture`](crate::Fixture) opens.
#[macro_export]
macro_rules! conformance {
    (@tests $($subject:ident { $($behaviour:ident)* })*) => {
        $(
            mod $subject {
                use super::ConformanceFixture;

                $(
                    #[test]
                    fn $behaviour() {
                        $crate::run(async {
                            let fixture =
                                <ConformanceFixture as $crate::Fixture>::create().await;
                            $crate::$subject::$behaviour(&fixture).await;
                        });
                    }
                )*
            }
        )*
    };
    ($fixture:ty) => {
        /// What the tests run on.
        type ConformanceFixture = $fixture;

        $crate::conformance! { @tests
            answers {
                a_claim_is_new_once
                a_claim_with_another_body_is_refused
                a_kept_answer_comes_back_after_reopening
                an_expired_answer_counts_as_nothing
                a_stale_claim_is_taken_over
                a_released_claim_is_new_again
                an_answer_is_never_released_or_replaced
                keys_of_different_scopes_do_not_meet
                purging_forgets_what_has_expired_up_to_the_limit
                purging_forgets_claims_of_yesterday
                two_claims_at_once_give_one_new
            }
            audit {
                a_deed_is_durable_when_it_is_recorded
                deeds_are_listed_latest_first
                deeds_are_listed_in_pages
                deeds_are_filtered
                a_deed_never_changes
                deeds_at_once_are_all_recorded
            }
            batches {
                batches_are_listed_latest_first
                batches_of_several_tenants_are_listed_together
                batches_are_listed_by_type_and_state
                an_unknown_batch_is_not_there
                the_first_recall_stays
            }
            batch_ranges {
                the_batches_of_a_type_are_in_order_of_serials
                what_becomes_of_a_batch_does_not_change_its_range
                ranges_are_read_in_pages
                many_batches_with_much_metadata_are_read_page_by_page
            }
            cancelling {
                what_was_not_made_becomes_a_gap
                a_queued_batch_is_cancelled_whole
                cancelling_twice_changes_nothing
                a_complete_batch_cannot_be_cancelled
                with_a_reason_what_was_made_is_void
            }
            catalogue {
                the_version_grows_with_every_change
                the_version_stays_when_nothing_changes
                the_version_stays_when_receivers_stay
                the_version_grows_with_the_first_use_of_a_type
                a_check_of_a_healthy_store_succeeds
                a_closed_store_is_unavailable
                closing_twice_is_fine
            }
            chunks {
                claims_go_through_the_chunks_in_order
                a_batch_runs_from_the_first_claim_on
                the_last_chunk_completes_its_batch
                finishing_twice_changes_nothing
                workers_at_once_make_every_chunk_once
                claims_at_once_never_give_the_same_chunk
                tenants_take_turns
                a_claim_can_be_for_one_tenant
                a_silent_worker_loses_its_chunk
                a_worker_that_nobody_missed_finishes_late
                a_failed_chunk_waits_for_its_time
                the_chunks_of_a_retired_type_go_on
            }
            claims {
                only_the_claimant_keeps_or_releases
                a_claim_that_was_taken_over_is_lost_to_its_first_owner
                the_claim_of_an_instance_that_is_gone_is_taken_over
                an_answer_outlives_its_instance
                the_claim_of_another_instance_counts_while_it_lives
            }
            codes {
                scans_are_counted
                scans_at_once_add_up
                a_scan_with_a_key_counts_once
                a_key_is_not_used_up_by_what_was_not_made
                scans_with_one_key_at_once_count_once
                keys_of_scans_are_forgotten_the_oldest_first
                codes_of_several_batches_are_scanned_together
                a_code_that_is_not_made_is_not_there
                a_code_of_an_unknown_batch_is_not_there
                codes_on_both_sides_of_a_border_are_there
                the_first_reason_of_a_void_code_stays
                the_codes_of_a_recalled_batch_are_void
            }
            counters {
                draws_are_disjoint_and_consecutive_under_concurrency
                the_first_draw_starts_at_the_lower_bound
                a_draw_at_the_end_gives_fewer_then_none_for_ever
                the_last_serial_of_all_can_be_drawn
                empty_bounds_give_nothing_and_use_nothing
                periods_and_types_are_separate_counters
                counters_never_go_back_over_a_reopening
                a_draw_from_an_unknown_or_retired_type_is_refused
                a_draw_for_another_revision_is_refused
            }
            dead_letters {
                a_chunk_without_another_attempt_is_a_dead_letter
                a_chunk_that_is_silent_too_often_is_a_dead_letter
                dead_letters_are_listed_in_order
                dead_letters_of_several_tenants_are_listed_together
                a_dead_letter_is_tried_again_with_all_attempts
                an_abandoned_dead_letter_is_a_gap
                a_batch_completes_around_what_was_abandoned
                only_dead_letters_are_settled
                many_dead_letters_are_settled_in_one_step
                what_is_abandoned_is_not_ordered_any_more
            }
            deciding {
                decisions_change_what_they_can
                a_delivery_is_tried_again_with_all_attempts
                abandoning_ends_the_claim
                unknown_deliveries_are_not_decided_about
                everything_pending_is_abandoned
                deliveries_outlive_their_receiver
            }
            delivering {
                what_is_due_is_claimed
                the_longest_due_comes_first
                a_claim_ends_by_itself
                a_late_end_counts_if_nobody_has_claimed
                claims_at_once_are_disjoint
                each_receiver_is_given_its_limit
                receivers_of_several_tenants_are_served_together
                the_receiver_of_another_tenant_is_not_there
            }
            delivery_lists {
                deliveries_are_listed_latest_first
                deliveries_are_listed_by_state
                what_is_settled_and_old_is_forgotten
                only_so_many_are_forgotten_at_once
                what_is_tried_again_is_not_forgotten
            }
            document_gaps {
                a_document_that_is_given_up_on_is_a_gap
                a_document_that_arrives_after_all_closes_its_gap
                a_document_that_arrives_late_closes_its_gap
                a_gap_stays_until_its_document_arrives
                a_document_that_is_abandoned_is_a_gap
                another_reason_is_another_gap
                documents_that_are_lost_together_are_one_gap
                only_dead_letters_are_decided_about
                a_dead_document_is_tried_again_elsewhere
                a_number_can_be_missing_more_than_once
                abandoning_all_that_is_pending_makes_gaps
                a_claim_that_is_over_changes_no_gap
                deliveries_that_are_no_documents_are_no_gaps
            }
            document_numbers {
                drawn_numbers_come_off_the_draws
                the_numbers_of_documents_are_in_the_issue_log
                what_is_known_uses_no_number
                requests_that_there_are_no_numbers_for_are_left_out
                what_is_with_somebody_else_is_not_assigned
                a_number_that_was_not_lost_after_all_closes_its_gap
                a_whole_gap_is_closed_under_its_number
                a_number_that_was_given_up_is_not_assigned
                the_counter_gives_numbers_in_the_step
                a_step_that_fails_leaves_the_counter_alone
                numbers_that_are_taken_at_once_have_no_gaps
            }
            documents {
                a_document_and_its_number_are_on_record_together
                a_document_can_be_claimed_as_it_is_assigned
                an_assignment_marks_its_type_as_used
                an_assignment_for_a_type_that_is_not_in_force_is_refused
                a_reference_has_one_number
                a_request_key_has_one_number
                documents_that_come_twice_in_one_order_are_one
                a_request_is_taken_whole_or_not_at_all
                the_same_document_at_once_has_one_number
                documents_are_found_by_number_and_period
                documents_are_listed_latest_first
                dead_documents_are_listed_across_types
                documents_are_not_forgotten
                many_documents_are_assigned_in_one_step
            }
            epochs {
                there_is_no_epoch_before_the_first_server
                a_server_keeps_its_epoch
                every_change_of_server_begins_an_epoch
                instances_that_meet_a_new_server_agree
            }
            events {
                a_batch_tells_of_its_last_chunk
                a_derived_batch_tells_once
                an_order_that_is_refused_tells_nothing
                a_batch_tells_each_time_it_needs_attention
                an_event_tells_how_far_the_batch_was
                a_silent_worker_is_told_of_when_its_chunk_dies
                a_batch_tells_once_that_it_was_cancelled
                what_happens_at_once_is_told_once
                an_event_shows_the_rest_of_its_batch_as_it_is_now
                the_oldest_events_come_first
                events_of_several_tenants_are_there
            }
            gap_lists {
                gaps_are_listed_by_reason
                gaps_are_listed_by_serial
                closed_gaps_are_listed_where_they_are_asked_for
                totals_do_not_depend_on_the_page
                a_gap_is_accepted_once
                an_unknown_gap_is_not_accepted
                the_parts_of_an_accepted_gap_are_accepted
            }
            history {
                every_serial_is_accounted_for_in_any_history
            }
            holders {
                open_draws_are_what_a_holder_has_not_accounted_for
                what_leaves_a_pool_is_with_the_instance
                what_a_pool_does_not_hold_is_not_handed_over
                issues_are_taken_off_a_pool_as_well
                closing_draws_records_what_is_still_held
                a_crash_loses_what_had_left_the_pool
                a_pool_is_lost_when_its_epoch_has_ended
            }
            idling {
                a_batch_is_idle_while_only_dead_letters_are_left
                a_batch_stays_idle_until_something_can_be_made
                time_in_which_nobody_works_is_idle
            }
            instances {
                joining_twice_gives_the_same_node
                only_who_has_joined_renews
                who_has_left_is_not_reported_as_gone
                a_lease_that_is_renewed_late_counts_if_nobody_noticed
                a_successor_takes_the_node_of_the_one_that_is_gone
                living_instances_hold_different_nodes
                many_that_join_at_once_get_different_nodes
                a_lease_that_ran_out_is_reported_once
                an_instance_never_reports_itself
            }
            keys {
                a_key_comes_back_as_it_was_stored
                a_taken_public_part_is_refused
                a_key_is_revoked_once
                keys_are_listed_oldest_first_with_growing_numbers
                unknown_keys_cannot_be_revoked
            }
            late_log {
                what_was_issued_after_all_is_no_gap
                a_whole_gap_can_vanish
                serials_around_late_issues_stay_gaps
                parts_of_a_gap_have_numbers_of_their_own
                discarded_serials_can_turn_out_to_be_issued
                late_issues_leave_other_counters_alone
                late_issues_come_off_gaps_and_draws_together
            }
            log {
                recording_takes_serials_off_the_front_of_a_draw
                recording_everything_settles_a_draw
                rejected_serials_alone_are_accounted_for
                recording_in_the_middle_leaves_both_sides_open
                recording_twice_changes_nothing
                groups_of_several_types_are_recorded_together
                the_log_of_a_retired_type_goes_on
                recording_nothing_is_fine
            }
            lookup {
                serials_are_found_at_all_boundaries
                groups_of_every_width_are_told_apart
                periods_are_told_apart
                overlapping_groups_are_told_apart
                a_narrow_group_within_a_wide_one_is_found
                snowflakes_at_the_end_of_the_space_are_found
                all_fields_of_an_issue_come_back_after_reopening
            }
            lost_chunks {
                what_an_instance_had_claimed_is_free_without_it
                the_own_claims_of_an_instance_are_not_lost
                what_another_instance_has_claimed_is_free_only_without_it
                a_chunk_that_was_lost_too_often_is_a_dead_letter
            }
            lost_claims {
                a_worker_that_asks_again_gets_the_same_chunk
                lost_claims_use_up_no_attempts
                a_lost_claim_is_that_of_one_worker
                a_lost_claim_comes_before_the_turns_of_others
                what_a_worker_has_failed_at_is_not_lost
                what_another_worker_has_taken_over_does_not_come_back
                a_silent_claim_can_still_be_a_lost_one
                a_claim_that_was_released_is_not_a_lost_one
            }
            lost_draws {
                a_crash_leaves_exactly_what_was_not_accounted_for
                a_clean_history_has_no_lost_draws
                closing_lost_draws_twice_finds_nothing_more
                the_own_draws_of_an_instance_are_not_lost
                what_another_instance_holds_is_lost_only_without_it
                gaps_are_found_at_all_boundaries
                gaps_are_listed_in_pages
                gaps_survive_a_reopening
            }
            made {
                what_is_made_is_told_in_few_ranges
                a_complete_batch_is_made_as_a_whole
            }
            manifests {
                the_first_manifest_stays
                every_batch_has_its_own_manifest
            }
            orders {
                an_order_draws_right_behind_earlier_draws
                an_order_marks_its_type_as_used
                the_serials_of_a_batch_are_never_lost
                orders_and_draws_at_once_are_disjoint
                an_order_that_has_no_room_changes_nothing
                only_so_many_batches_are_under_way
                only_so_many_codes_are_ordered
                an_order_for_a_type_that_is_not_in_force_is_refused
                the_ids_of_batches_and_codes_never_repeat
                all_fields_of_a_batch_come_back_after_reopening
                a_derived_batch_is_complete_at_once
                the_same_order_again_gives_the_same_batch
                another_order_with_the_same_key_is_refused
            }
            ordering {
                documents_are_claimed_in_order_of_creation
                what_is_claimed_holds_up_what_follows
                what_waits_holds_up_what_follows
                what_is_dead_or_abandoned_holds_up_nothing
                types_do_not_hold_up_each_other
                a_limit_keeps_the_order
                claims_at_once_keep_the_order
                the_order_is_that_of_a_receiver
                what_was_not_tried_is_due_at_once
            }
            receivers {
                a_receiver_comes_back_as_it_was_stored
                receivers_are_listed_by_number
                a_name_is_taken_for_a_tenant_and_a_purpose
                settings_are_changed_by_who_knows_the_revision
                a_disabled_receiver_keeps_its_first_reason
                a_change_puts_a_disabled_receiver_to_use
                a_removed_receiver_is_forgotten
                numbers_of_removed_receivers_do_not_come_back
                an_unknown_receiver_is_not_there
            }
            reconciling {
                what_is_explained_is_no_gap
                what_nothing_explains_is_a_gap
                a_step_goes_on_where_the_last_one_stopped
                what_is_drawn_later_is_looked_at_later
                what_was_given_back_is_looked_at_again
                what_turns_up_late_is_no_gap
                steps_at_once_look_at_each_serial_once
                wide_ranges_are_read_at_once
            }
            reservations {
                a_number_is_held
                a_reservation_is_found_by_its_number
                only_what_the_holder_has_is_held
                unknown_reservations_are_not_there
                a_document_gets_the_number_that_is_held
                confirming_twice_gives_the_same_document
                a_reference_of_another_number_is_in_conflict
                a_number_that_is_released_is_a_gap
                a_number_that_nobody_came_for_is_a_gap
                the_ids_of_documents_and_reservations_are_on_record
                time_runs_out_by_itself
                who_comes_first_decides
            }
            returns {
                the_tail_of_a_counter_goes_back_to_it
                a_part_of_the_tail_goes_back
                what_is_not_the_tail_becomes_a_gap
                what_a_draw_does_not_hold_cannot_be_given_back
                given_back_serials_are_drawn_again_once
                draws_given_back_in_reverse_order_all_go_back
                what_a_pool_holds_goes_back_as_well
            }
            routing {
                an_event_becomes_deliveries_in_one_step
                an_event_is_routed_once
                who_routes_at_once_routes_once
                an_event_that_nobody_wants_is_forgotten
                an_unknown_event_is_not_routed
                contents_come_back_as_they_were_put
                the_numbers_of_deliveries_grow
            }
            scan_contexts {
                a_context_has_the_number_of_its_scan
                contexts_are_kept_whatever_table_a_code_is_in
                what_was_not_made_keeps_no_context
                a_scan_with_a_key_keeps_its_context_once
                contexts_of_scans_at_once_do_not_mix
                contexts_are_listed_in_pages
                contexts_are_forgotten_the_oldest_first
                a_context_comes_back_as_it_was_sent
            }
            setting_out {
                documents_set_out_and_arrive_together
                some_that_set_out_arrive_before_others
                what_becomes_of_one_is_no_concern_of_those_beside_it
                what_set_out_and_was_not_heard_of_is_due_again
                a_document_on_its_way_can_be_given_up
                all_on_their_way_to_a_receiver_can_be_given_up
                a_late_arrival_of_one_that_set_out_is_noted
                one_of_those_that_arrived_can_be_sent_again
                what_follows_those_on_their_way_waits_where_the_order_counts
            }
            settling {
                what_has_arrived_is_delivered
                what_arrives_late_has_arrived
                another_attempt_waits_for_its_time
                what_is_given_up_on_is_dead
                failed_attempts_are_logged_in_order
                settling_twice_changes_nothing
                who_settles_at_once_settles_once
                an_old_claim_does_not_hold_up_the_others
                unknown_deliveries_are_not_settled
                deliveries_of_several_tenants_are_settled_together
                many_deliveries_are_settled_in_one_step
            }
            tenants {
                a_tenant_is_made_and_changed
                tenants_are_listed_by_name
                a_tenant_with_types_stays
                an_unknown_tenant_cannot_be_removed
            }
            types {
                a_type_comes_back_as_it_was_stored
                a_type_brings_its_tenant
                a_taken_name_is_refused
                an_unused_type_changes_freely
                a_used_type_changes_only_where_allowed
                a_change_of_what_is_no_longer_there_is_refused
                the_revision_grows_with_every_change
                a_type_is_never_renamed_onto_another
                an_unused_type_is_deleted
                a_used_type_is_retired_and_revived
                numbers_of_deleted_types_do_not_come_back
                unknown_types_cannot_be_changed_or_removed
                a_draw_marks_its_type_as_used
                a_logged_snowflake_marks_its_type_as_used
            }
        }
    };
}
