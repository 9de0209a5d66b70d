//! The gateway on real sockets: every way in, against every trick.
//!
//! What is tried for each threat of the way out. *Every way* is absolute-form HTTP, CONNECT, SOCKS5
//! with a name and with an address, and a connection that knows of no proxy (after a question for
//! the name). Rows that are about the walls and not the gateway are tried where those are built:
//! `conformance` is in `bulkhead-backends`, `user` in `bulkhead/tests/it/egress.rs`.
//!
//! | threat | tests |
//! |---|---|
//! | D1 programs that ignore a proxy | `conformance` `reaches_no_tcp_port`, `is_refused_at_once_elsewhere`; `threats::what_no_rule_allows_is_refused_by_every_way` |
//! | D2 addresses in every spelling | `threats::addresses_are_refused_unless_they_are_listed` |
//! | D3 odd characters in names | `threats::odd_names_are_refused_by_every_way`, `generated`, the fuzzer's `host` |
//! | D4 suffixes, case, dots, wildcards | `threats::names_are_compared_in_one_spelling` |
//! | D5 rebinding, mixed answers, resolver errors | `threats::a_name_that_leads_to_a_wrong_address_is_refused_by_every_way` |
//! | D6 names that disagree, none, hidden ones | `tunnels::tls_to_another_name_is_cut_by_every_way`, `tunnels::a_hello_within_a_hello_is_judged_by_the_name_outside`, `terminated::the_name_inside_must_be_the_name_outside`, `http::each_request_is_judged_and_must_name_its_host`, `http::a_tunnel_and_its_host_header_agree` |
//! | D7 opaque bytes on 443 | `tunnels::opaque_bytes_on_443_are_cut_by_every_way` |
//! | D8 other ports | `threats::other_ports_need_a_rule_of_their_own` |
//! | D9 redirects | `threats::nobody_follows_a_redirect_for_a_program` |
//! | D10 plain HTTP as strict as CONNECT | every test that goes every way |
//! | D11 the second request of a connection | `http::each_request_is_judged_and_must_name_its_host`, `terminated::many_requests_go_over_one_connection_of_either_version` |
//! | D12 smuggling | `http::what_could_be_read_in_two_ways_is_refused`, `http::what_is_between_neighbours_goes_no_further`, `http::an_odd_answer_of_a_host_is_not_passed_on`, `generated`, the fuzzer's `request` |
//! | D13 WebSocket before a 101 | `http::a_websocket_begins_when_upstream_says_so` |
//! | D14 QUIC, UDP, ICMP, DoH | `conformance` `reaches_no_udp_port`, `makes_no_packets_of_its_own`; `bulkhead-policy` `an_observed_sandbox_reaches_what_is_public_and_nothing_else` |
//! | D15 questions for names as messages | `dns::other_names_do_not_exist_and_are_asked_of_nobody`, `threats::what_no_rule_allows_is_refused_by_every_way`, `conformance` `asks_no_resolver_of_the_host` |
//! | D16 metadata services | `threats::metadata_services_stay_shut_whatever_is_allowed` |
//! | D17, D18 the gateway of another sandbox | `live::two_gateways_know_nothing_of_each_other`, `conformance` `takes_no_door`, `joins_no_other_network`; `user` `bulkheads_own_sockets_are_seen_by_no_sandbox` |
//! | D19 a verdict that is used again | `threats::what_no_rule_allows_is_refused_by_every_way`, `live::a_rule_that_is_taken_back_cuts_what_it_allowed_and_nothing_else`, `neighbours::a_neighbour_that_leaves_meanwhile_is_no_way_to_the_world` |
//! | D20 the host itself, and our own sockets | `threats::the_host_is_reached_by_its_name_only_and_never_its_gateway`, `threats::a_socket_of_ours_on_the_host_is_out_of_reach`, `conformance` `reaches_no_host_port_that_is_also_a_door` |
//! | D21 slow, silent, greedy and deaf peers | `http::a_head_has_an_end_and_a_deadline`, `limits::a_crowd_that_says_nothing_is_turned_away`, `limits::so_many_connections_at_once_and_no_more`, `limits::for_who_does_not_read_nothing_is_read`, `limits::a_tunnel_where_nothing_happens_ends` |
//! | D22 uploads to broad hosts | `terminated::requests_are_judged_by_method_and_path_by_every_way`, `limits::so_many_bytes_and_no_more` |
//! | D23 encoded traversal | `terminated::requests_are_judged_by_method_and_path_by_every_way`, `bulkhead-spec` `egress` |
//! | D24 secrets that come back or go astray | `secrets`, `http::trace_is_not_passed_on` |
//! | D25 rules that change | `live::a_rule_that_is_taken_back_cuts_what_it_allowed_and_nothing_else`, `live::a_rule_that_is_taken_back_cuts_an_answer_that_is_under_way` |
//! | D26 a gateway that dies | `live::a_gateway_that_is_gone_is_a_way_out_that_is_shut`, `conformance` `is_refused_when_nobody_answers`, `user` `a_killed_bulkhead_leaves_no_way_out` |

#[cfg(test)]
mod budgets;
#[cfg(test)]
mod dns;
#[cfg(test)]
mod generated;
#[cfg(test)]
mod http;
#[cfg(test)]
mod limits;
#[cfg(test)]
mod live;
#[cfg(test)]
mod neighbours;
#[cfg(test)]
mod secrets;
#[cfg(test)]
mod servers;
#[cfg(test)]
mod stage;
#[cfg(test)]
mod terminated;
#[cfg(test)]
mod threats;
#[cfg(test)]
mod tunnels;
#[cfg(test)]
mod upstream;
#[cfg(test)]
mod ways;
