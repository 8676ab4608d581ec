//! The kernel programs against crafted packets, one at a time, by the kernel's own test run: no
//! interface, no qdisc, no clock to wait for. Rates are so low (1 kbit/s: 1,000 B take 8 s) that
//! the time between two runs does not matter.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod actions;
mod bucket;
mod cgroups;
mod change;
mod classes;
mod clients;
mod compiled;
mod ecn;
mod framing;
mod full;
mod holds;
mod keys;
mod link;
mod packets;
mod random;
mod rig;

use libtest_mimic::{Arguments, Completion, Failed, Trial};

type Case = (&'static str, fn() -> Result<(), Failed>);

fn main() {
    let mut arguments = Arguments::from_args();
    arguments.test_threads = Some(1);
    macro_rules! cases {
        ($($module:ident: $($name:ident),* $(,)?);* $(;)?) => {
            vec![$($((stringify!($name), $module::$name as fn() -> _)),*),*]
        };
    }
    let cases: Vec<Case> = cases![
        bucket: stamps_are_one_cost_apart_and_what_does_not_fit_is_dropped,
            a_packet_that_would_wait_too_long_is_dropped_under_its_own_reason,
            each_flow_has_a_bucket_of_its_own,
            l22_each_segment_of_a_gso_packet_is_charged_with_its_headers,
            rates_in_packets_charge_each_segment,
            a_new_policy_keeps_the_state,
            l18_the_policy_in_the_kernel_is_the_one_that_was_set;
        packets: control_traffic_is_neither_delayed_nor_dropped,
            every_kind_of_packet_is_limited,
            all_fragments_of_a_datagram_are_one_flow,
            packets_without_a_link_header;
        holds: more_flows_than_the_table_holds_share_one_limited_bucket,
            a_flow_takes_a_queue_of_the_hold_and_keeps_it,
            a_receive_timestamp_is_no_departure_time,
            priority_7_does_not_get_past_fq,
            control_traffic_cannot_enter_a_queue_of_the_hold;
        classes: the_first_class_that_matches_takes_the_packet,
            l42_options_do_not_shift_the_ports,
            l43_fragments_and_headers_between_do_not_escape_their_class;
        actions: l41_unreadable_frames_are_of_the_fallback_and_counted,
            l65_the_fallback_passes_drops_or_is_a_class,
            control_traffic_is_classified_when_asked,
            actions_do_what_they_say,
            monitor_counts_as_if_it_shaped,
            monitored_keys_take_no_queue;
        random: l40_random_classes_and_packets_agree_with_the_rules_read_one_by_one;
        keys: l68_all_addresses_of_a_prefix_have_one_bucket,
            l11_all_connections_of_a_client_have_one_bucket,
            each_kind_of_key_tells_apart_what_it_says,
            the_same_address_in_two_vlans_is_two_keys,
            classes_do_not_share_keys;
        clients: the_longest_prefix_has_the_say,
            each_client_has_its_own_rate_and_capacity,
            l66_a_client_replaced_keeps_its_backlog_and_one_removed_is_nobodys,
            a_hundred_thousand_clients_fit_and_are_found;
        link: what_the_link_does_not_take_is_dropped_under_its_own_reason,
            l65_keys_without_a_backlog_are_refused_only_by_a_full_link,
            equal_keys_share_an_overloaded_link_equally,
            what_passes_its_class_is_limited_by_the_link;
        ecn: a_long_wait_is_marked_on_those_who_understand,
            a_mark_does_not_touch_the_vlan_tag;
        framing: overhead_and_minimum_are_charged_for_every_frame,
            overhead_is_charged_for_every_segment;
        full: l67_keys_beyond_the_table_share_one_limited_bucket;
        change: a_packet_sees_the_old_policy_or_the_new_one,
            two_cpus_on_one_bucket_lose_nothing,
            l74_a_thousand_prefixes_are_in_force_in_a_second;
    ];
    let by_cgroup: [Case; 1] = [(
        "l74_a_cgroup_and_those_below_it_are_in_its_class",
        cgroups::l74_a_cgroup_and_those_below_it_are_in_its_class,
    )];
    let needs_nothing = cases.into_iter().map(|case| (case, false));
    let needs_cgroups = by_cgroup.into_iter().map(|case| (case, true));
    let trials = needs_nothing
        .chain(needs_cgroups)
        .map(|((name, case), cgroups)| {
            Trial::ignorable_test(name, move || {
                if !nix::unistd::geteuid().is_root() {
                    return Ok(Completion::ignored_with("needs root to load BPF programs"));
                }
                if let Some(why) = cgroups::unavailable().filter(|_| cgroups) {
                    return Ok(Completion::ignored_with(why));
                }
                case().map(|()| Completion::Completed)
            })
        })
        .collect();
    libtest_mimic::run(&arguments, trials).exit();
}
