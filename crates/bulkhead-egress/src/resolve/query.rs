//! Questions to the host's name servers.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    time::Duration,
};

use bulkhead_spec::HostName;
use hickory_proto::{
    op::{Message, MessageType, Query, ResponseCode},
    rr::{Name, RData, RecordType},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpStream, UdpSocket},
    time::timeout,
};

/// How long one server has for one question.
const PATIENCE: Duration = Duration::from_millis(1500);

/// What name servers said.
pub(super) struct Answer {
    /// Every address, IPv4 first.
    pub(super) addresses: Vec<IpAddr>,
    /// How long that is good.
    pub(super) lifetime: Duration,
}

/// Asks each server in turn, twice, until one answers.
pub(super) async fn ask(servers: &[SocketAddr], name: &HostName) -> io::Result<Answer> {
    let mut last = io::Error::from(io::ErrorKind::HostUnreachable);
    for server in servers.iter().chain(servers) {
        let four = ask_one(*server, name, RecordType::A);
        let six = ask_one(*server, name, RecordType::AAAA);
        match tokio::try_join!(four, six) {
            Ok((four, six)) => return together(four, six),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(error),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn together(mut four: Answer, six: Answer) -> io::Result<Answer> {
    four.addresses.extend(six.addresses);
    four.lifetime = four.lifetime.min(six.lifetime);
    if four.addresses.is_empty() { Err(io::ErrorKind::NotFound.into()) } else { Ok(four) }
}

async fn ask_one(server: SocketAddr, name: &HostName, kind: RecordType) -> io::Result<Answer> {
    let asked = Name::from_ascii(format!("{name}.")).map_err(io::Error::other)?;
    let mut question = Message::query();
    question.metadata.recursion_desired = true;
    question.add_query(Query::query(asked, kind));
    let bytes = question.to_vec().map_err(io::Error::other)?;
    let mut answer = timeout(PATIENCE, over_udp(server, &bytes, &question)).await??;
    if answer.metadata.truncation {
        answer = timeout(PATIENCE, over_tcp(server, &bytes, &question)).await??;
    }
    let code = answer.metadata.response_code;
    if code == ResponseCode::NoError {
        return Ok(read(&answer));
    }
    Err(if code == ResponseCode::NXDomain {
        io::ErrorKind::NotFound.into()
    } else {
        io::Error::other(format!("the name server said {code}"))
    })
}

async fn over_udp(server: SocketAddr, bytes: &[u8], question: &Message) -> io::Result<Message> {
    let any = match server {
        SocketAddr::V4(_) => SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
        SocketAddr::V6(_) => SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)),
    };
    // A port of its own for each question, and connected: a stranger's answer does not arrive.
    let socket = UdpSocket::bind(any).await?;
    socket.connect(server).await?;
    socket.send(bytes).await?;
    let mut buffer = [0_u8; 4096];
    loop {
        let length = socket.recv(&mut buffer).await?;
        if let Some(answer) = buffer.get(..length).and_then(|it| answer_to(question, it)) {
            return Ok(answer);
        }
    }
}

async fn over_tcp(server: SocketAddr, bytes: &[u8], question: &Message) -> io::Result<Message> {
    let mut stream = TcpStream::connect(server).await?;
    let length = u16::try_from(bytes.len()).map_err(io::Error::other)?;
    stream.write_u16(length).await?;
    stream.write_all(bytes).await?;
    let mut buffer = vec![0; usize::from(stream.read_u16().await?)];
    stream.read_exact(&mut buffer).await?;
    answer_to(question, &buffer).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// Reads an answer, if it is one to this question.
fn answer_to(question: &Message, bytes: &[u8]) -> Option<Message> {
    let answer = Message::from_vec(bytes).ok()?;
    let ours = answer.metadata.message_type == MessageType::Response
        && answer.metadata.id == question.metadata.id
        && answer.queries == question.queries;
    ours.then_some(answer)
}

/// Reads an answer to any question, for fuzzers.
pub(super) fn read_any(bytes: &[u8]) -> Option<Answer> {
    let answer = Message::from_vec(bytes).ok()?;
    let mut question = Message::query();
    question.metadata.id = answer.metadata.id;
    question.queries.clone_from(&answer.queries);
    drop(answer_to(&question, bytes));
    Some(read(&answer))
}

/// The addresses of an answer. The server has followed the aliases, and what the addresses are
/// is looked at before any is dialled, so whose they are does not matter.
fn read(answer: &Message) -> Answer {
    let mut lifetime = Duration::from_mins(5);
    let mut addresses = Vec::new();
    for record in answer.answers.iter().take(64) {
        lifetime = lifetime.min(Duration::from_secs(record.ttl.into()));
        if let RData::A(address) = &record.data {
            addresses.push(IpAddr::V4(address.0));
        } else if let RData::AAAA(address) = &record.data {
            addresses.push(IpAddr::V6(address.0));
        }
    }
    Answer { addresses, lifetime }
}
