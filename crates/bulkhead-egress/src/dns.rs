//! Questions for names.
//!
//! Nothing that is asked here leaves the host: a name that may be reached has an address of ours,
//! any other does not exist. The real address is looked up when somebody connects.

use std::sync::Arc;

use bulkhead_policy::{Reason, Refusal};
use bulkhead_spec::HostName;
use hickory_proto::{
    op::{Edns, Message, MessageType, OpCode, Query, ResponseCode},
    rr::{DNSClass, Name, RData, Record, RecordType, rdata::A},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::UdpSocket,
    time::timeout,
};

use crate::{room::Room, wire::Wire};

/// How long an answer is good; a rule that is taken back takes effect at once all the same.
const LIFETIME: u32 = 30;

/// The same for the address of a neighbour.
const BRIEFLY: u32 = 1;

/// The longest question that is read.
const LONGEST: usize = 4096;

/// Answers what comes over `socket`, until it fails.
pub(crate) async fn serve(room: Arc<Room>, socket: UdpSocket) {
    let mut question = [0_u8; LONGEST];
    loop {
        let Ok((length, from)) = socket.recv_from(&mut question).await else { return };
        let Some(answer) = question.get(..length).and_then(|it| answer(&room, it)) else {
            continue;
        };
        // Whoever does not read its answer asks again, or not.
        drop(socket.send_to(&answer, from).await);
    }
}

/// Answers what comes over a connection, each message with its length before it.
pub(crate) async fn serve_stream(room: &Room, mut wire: Wire) {
    loop {
        let exchange = async {
            let length = usize::from(wire.read_u16().await.ok()?);
            let mut question = vec![0; Some(length).filter(|it| *it <= LONGEST)?];
            wire.read_exact(&mut question).await.ok()?;
            let answer = answer(room, &question)?;
            wire.write_u16(u16::try_from(answer.len()).ok()?).await.ok()?;
            wire.write_all(&answer).await.ok()
        };
        match timeout(room.timings.handshake, exchange).await {
            Ok(Some(())) => {}
            Ok(None) | Err(_) => return,
        }
    }
}

/// The answer to one question; none to what is no question.
pub(crate) fn answer(room: &Room, question: &[u8]) -> Option<Vec<u8>> {
    let asked = Message::from_vec(question).ok()?;
    if asked.metadata.message_type != MessageType::Query {
        return None;
    }
    let mut answer = Message::response(asked.metadata.id, asked.metadata.op_code);
    answer.metadata.recursion_desired = asked.metadata.recursion_desired;
    answer.metadata.recursion_available = true;
    if asked.edns.is_some() {
        let mut edns = Edns::new();
        edns.set_max_payload(1232);
        answer.set_edns(edns);
    }
    answer.metadata.response_code = match asked.queries.as_slice() {
        [query] if asked.metadata.op_code == OpCode::Query => {
            answer.add_query(query.clone());
            fill(room, query, &mut answer)
        }
        _ => ResponseCode::NotImp,
    };
    answer.to_vec().ok()
}

/// Adds the records that answer `query`.
fn fill(room: &Room, query: &Query, answer: &mut Message) -> ResponseCode {
    if query.query_class() != DNSClass::IN {
        return ResponseCode::Refused;
    }
    let Some(name) = read(query.name()) else { return ResponseCode::NXDomain };
    if let Some(address) = room.neighbour(&name.clone().into()) {
        // For a moment only: who has the name may end, and another take it.
        if query.query_type() == RecordType::A {
            let data = RData::A(A(address));
            answer.add_answer(Record::from_rdata(query.name().clone(), BRIEFLY, data));
        }
        return ResponseCode::NoError;
    }
    if let Err(refusal) = known(room, &name) {
        // The port is not known yet; the one of the web is what most would have meant.
        room.report.denied(name.as_str(), 443, &refusal);
        return ResponseCode::NXDomain;
    }
    if query.query_type() != RecordType::A {
        // It exists, and has no such record: a client that wanted IPv6 takes IPv4.
        return ResponseCode::NoError;
    }
    match room.names.address_of(&name) {
        Some(address) => {
            let data = RData::A(A(address));
            answer.add_answer(Record::from_rdata(query.name().clone(), LIFETIME, data));
            ResponseCode::NoError
        }
        None => ResponseCode::ServFail,
    }
}

fn known(room: &Room, name: &HostName) -> Result<(), Box<Refusal>> {
    use bulkhead_policy::Verdict;

    let rules = room.rules();
    if rules.knows(name) {
        return Ok(());
    }
    match rules.judge(&name.clone().into(), 443) {
        Verdict::Denied(refusal) => Err(Box::new(refusal)),
        Verdict::Allowed(_) => {
            Err(Box::new(Refusal { reason: Reason::NoRule, allow_with: None }))
        }
    }
}

/// The name in the one spelling that is judged. A label may hold any byte, a host name may not.
fn read(name: &Name) -> Option<HostName> {
    let labels: Option<Vec<_>> = name
        .iter()
        .map(|it| std::str::from_utf8(it).ok().filter(|it| !it.contains('.')))
        .collect();
    labels?.join(".").parse().ok()
}
