//! Sockets: which kinds may be made, and everything with those that were.

use super::super::rule::{Action, Check, Clause, Errno, Rule, Verdict, word};
use super::{rule, rules};

/// A socket that exists has passed [`SOCKET`], or was given to the sandbox.
pub(super) const ALLOWED: &[Rule] = rules! {
    ALLOW;
    SYS_bind: "Gives a socket an address, in the sandbox's network.";
    SYS_listen: "Waits for connections.";
    SYS_accept: "Takes a connection.";
    SYS_accept4: "Takes a connection with flags.";
    SYS_connect: "Connects, in the sandbox's network.";
    SYS_getsockname: "Asks for the own address.";
    SYS_getpeername: "Asks for the other's address.";
    SYS_getsockopt: "Asks for an option.";
    SYS_setsockopt: "Sets an option; those of the network need a capability.";
    SYS_shutdown: "Ends one direction.";
    SYS_sendto: "Sends.";
    SYS_sendmsg: "Sends, with descriptors between own processes.";
    SYS_sendmmsg: "Sends several; resolvers do.";
    SYS_recvfrom: "Receives.";
    SYS_recvmsg: "Receives, with descriptors between own processes.";
    SYS_recvmmsg: "Receives several.";
};

/// Calls that make a socket.
pub(super) const INSPECTED: &[Rule] = &[
    rule!(SYS_socket, SOCKET, "TCP, UDP, ping, local sockets, and what lists interfaces."),
    rule!(SYS_socketpair, SOCKETPAIR, "Pairs are local; the kernel has no other kind."),
];

/// Each family, type and protocol is a driver that a program can reach, and the kernel loads its
/// module on request. So all three are named; what is not is answered as a kernel without it
/// would (`AF_ALG`: CVE-2026-31431).
const SOCKET: Action = Action::ByArguments {
    clauses: &[
        Clause { checks: &[Check::int(0, &[word(libc::AF_UNIX)])], verdict: Verdict::Allow },
        Clause {
            checks: &[INTERNET, STREAM, Check::int(2, &[0, word(libc::IPPROTO_TCP)])],
            verdict: Verdict::Allow,
        },
        Clause { checks: &[INTERNET, DATAGRAM, DATAGRAM_PROTOCOLS], verdict: Verdict::Allow },
        // SCTP, SMC, MPTCP, L2TP and the like. Go and curl try MPTCP and know this answer.
        Clause {
            checks: &[INTERNET, STREAM_OR_DATAGRAM],
            verdict: Verdict::Refuse(Errno::ProtocolNotSupported),
        },
        // Of netlink only NETLINK_ROUTE, which is 0: getifaddrs and `ip` ask it.
        Clause {
            checks: &[Check::int(0, &[word(libc::AF_NETLINK)]), Check::int(2, &[0])],
            verdict: Verdict::Allow,
        },
    ],
    otherwise: Verdict::Refuse(Errno::FamilyNotSupported),
};

const SOCKETPAIR: Action = Action::ByArguments {
    clauses: &[Clause {
        checks: &[Check::int(0, &[word(libc::AF_UNIX)])],
        verdict: Verdict::Allow,
    }],
    otherwise: Verdict::Refuse(Errno::FamilyNotSupported),
};

const INTERNET: Check = Check::int(0, &[word(libc::AF_INET), word(libc::AF_INET6)]);

/// The kernel's `SOCK_TYPE_MASK` and every other bit, less the two flags: so `SOCK_RAW` (3) and
/// `SOCK_PACKET` (10) fail, and so does a type that does not exist.
const KIND: u64 = u32::MAX as u64 & !word(libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC);
const STREAM: Check = Check::bits(1, KIND, &[word(libc::SOCK_STREAM)]);
const DATAGRAM: Check = Check::bits(1, KIND, &[word(libc::SOCK_DGRAM)]);
const STREAM_OR_DATAGRAM: Check =
    Check::bits(1, KIND, &[word(libc::SOCK_STREAM), word(libc::SOCK_DGRAM)]);

/// The default, which is UDP; UDP by name; and the ping sockets, which are not raw.
const DATAGRAM_PROTOCOLS: Check = Check::int(
    2,
    &[0, word(libc::IPPROTO_UDP), word(libc::IPPROTO_ICMP), word(libc::IPPROTO_ICMPV6)],
);
