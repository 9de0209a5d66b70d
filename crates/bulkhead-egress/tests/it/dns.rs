//! Questions for names.

use std::{net::UdpSocket, sync::Arc, time::Duration};

use bulkhead_egress::{Entrances, Gateway, GatewayPlan, Range};
use hickory_proto::{
    op::{Message, OpCode, Query, ResponseCode},
    rr::{DNSClass, Name, RecordType},
};

use crate::{
    stage::{Stage, World, plan, rules},
    ways::{ask, resolve},
};

fn stage() -> Stage {
    Stage::new(
        &Arc::new(World::default()),
        &["good.com", "*.good.com", "db.corp.com:5432"],
        &["bad.good.com"],
    )
}

#[test]
fn allowed_names_have_an_address_of_ours_and_keep_it() {
    let stage = stage();
    let first = resolve(&stage, "good.com").unwrap();
    assert_eq!(resolve(&stage, "GOOD.com."), Some(first));
    let other = resolve(&stage, "db.corp.com").unwrap();
    assert_ne!(first, other);
    assert!(first.is_loopback() && other.is_loopback());
    assert!(resolve(&stage, "x.good.com").is_some());
    // Row D15: nobody outside is asked.
    assert!(stage.asked().is_empty());
}

#[test]
fn other_names_do_not_exist_and_are_asked_of_nobody() {
    let stage = stage();
    let names = [
        "evil.com",
        "secret-data.evil.com",
        "bad.good.com",
        "a.b.good.com",
        "localhost",
        "com",
    ];
    for name in names {
        let answer = ask(&stage, name, RecordType::A).unwrap();
        assert_eq!(answer.metadata.response_code, ResponseCode::NXDomain, "{name}");
        assert!(answer.answers.is_empty());
    }
    assert!(stage.asked().is_empty());
    assert!(stage.denied().contains(&("evil.com".to_owned(), 443)));
}

#[test]
fn there_is_nothing_but_ipv4() {
    let stage = stage();
    for kind in
        [RecordType::AAAA, RecordType::HTTPS, RecordType::TXT, RecordType::ANY, RecordType::MX]
    {
        let answer = ask(&stage, "good.com", kind).unwrap();
        assert_eq!(answer.metadata.response_code, ResponseCode::NoError, "{kind}");
        assert!(answer.answers.is_empty(), "{kind}");
    }
}

#[test]
fn what_is_no_question_has_no_answer() {
    let stage = stage();
    assert_eq!(stage.gateway.answer(b""), None);
    assert_eq!(stage.gateway.answer(&[0; 12]), stage.gateway.answer(&[0; 12]));
    let mut twice = Message::query();
    for name in ["good.com", "good.com"] {
        twice.add_query(Query::query(Name::from_ascii(name).unwrap(), RecordType::A));
    }
    let answer = stage.gateway.answer(&twice.to_vec().unwrap()).unwrap();
    let answer = Message::from_vec(&answer).unwrap();
    assert_eq!(answer.metadata.response_code, ResponseCode::NotImp);
    let mut chaos = Query::query(Name::from_ascii("good.com").unwrap(), RecordType::A);
    chaos.set_query_class(DNSClass::CH);
    let mut message = Message::query();
    message.add_query(chaos);
    let answer = stage.gateway.answer(&message.to_vec().unwrap()).unwrap();
    let code = Message::from_vec(&answer).unwrap().metadata.response_code;
    assert_eq!(code, ResponseCode::Refused);
    let mut update = Message::query();
    update.metadata.op_code = OpCode::Update;
    assert!(stage.gateway.answer(&update.to_vec().unwrap()).is_some());
    // An answer is no question: two gateways must not talk to each other for ever.
    assert_eq!(stage.gateway.answer(&answer), None);
}

#[test]
fn questions_are_answered_over_udp() {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let at = socket.local_addr().unwrap();
    let plan =
        GatewayPlan { rules: rules(&["good.com"], &[]), synthetic: Range::Benchmark, ..plan() };
    let entrances = Entrances { dns: vec![socket], ..Entrances::default() };
    let gateway = Gateway::start(plan, entrances, |_| {}).unwrap();
    let inside = UdpSocket::bind("127.0.0.1:0").unwrap();
    inside.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let mut question = Message::query();
    question.add_query(Query::query(Name::from_ascii("good.com").unwrap(), RecordType::A));
    inside.send_to(&question.to_vec().unwrap(), at).unwrap();
    let mut buffer = [0; 512];
    let (length, _) = inside.recv_from(&mut buffer).unwrap();
    let answer = Message::from_vec(&buffer[..length]).unwrap();
    assert!(answer.answers[0].data.to_string().starts_with("198.18."));
    assert_eq!(gateway.shutdown().connections, 0);
}

#[tokio::test]
async fn questions_are_answered_over_a_connection_to_port_53() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    let stage = stage();
    let mut stream = crate::ways::transparent(&stage, "8.8.8.8:53".parse().unwrap()).await;
    let mut question = Message::query();
    question.add_query(Query::query(Name::from_ascii("good.com").unwrap(), RecordType::A));
    let bytes = question.to_vec().unwrap();
    for _ in 0..2 {
        stream.write_u16(u16::try_from(bytes.len()).unwrap()).await.unwrap();
        stream.write_all(&bytes).await.unwrap();
        let mut answer = vec![0; usize::from(stream.read_u16().await.unwrap())];
        stream.read_exact(&mut answer).await.unwrap();
        assert_eq!(Message::from_vec(&answer).unwrap().answers.len(), 1);
    }
}
