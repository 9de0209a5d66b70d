//! The ways out, as programs inside use them.

use std::net::{Ipv4Addr, SocketAddr};

use bulkhead_spec::Host;
use hickory_proto::{
    op::{Message, Query, ResponseCode},
    rr::{Name, RData, RecordType},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    time::{Duration, timeout},
};

use crate::stage::Stage;

/// How a program gets out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// `GET http://host/ HTTP/1.1` to a proxy.
    Absolute,
    /// `CONNECT host:port`.
    Connect,
    /// SOCKS5 with a name.
    SocksName,
    /// SOCKS5 with an address: the one that our own answer gave, or the literal.
    SocksAddress,
    /// A connection to the address that our own answer gave, or to the literal.
    Transparent,
}

pub(crate) const ALL: [Way; 5] =
    [Way::Absolute, Way::Connect, Way::SocksName, Way::SocksAddress, Way::Transparent];

/// The ways that carry any bytes.
pub(crate) const TUNNELS: [Way; 4] =
    [Way::Connect, Way::SocksName, Way::SocksAddress, Way::Transparent];

/// What came of it.
#[derive(Debug)]
pub(crate) enum Reached {
    /// A stream that leads there.
    Stream(TcpStream),
    /// No, and what was said about it.
    No(String),
}

impl Reached {
    pub(crate) fn stream(self) -> TcpStream {
        match self {
            Self::Stream(stream) => stream,
            Self::No(why) => panic!("not reached: {why}"),
        }
    }

    pub(crate) fn refusal(self) -> String {
        match self {
            Self::Stream(_) => panic!("reached"),
            Self::No(why) => why,
        }
    }
}

/// Asks for `host` and `port`, as it is spelled.
pub(crate) async fn reach(stage: &Stage, way: Way, host: &str, port: u16) -> Reached {
    match way {
        Way::Absolute => panic!("this way has no stream"),
        Way::Connect => connect(stage, &format!("{host}:{port}")).await,
        Way::SocksName => socks_name(stage, host.as_bytes(), port).await,
        Way::SocksAddress | Way::Transparent => {
            let Some(address) = address_of(stage, host) else {
                return Reached::No("there is no such name".to_owned());
            };
            let wanted = SocketAddr::new(address, port);
            if way == Way::SocksAddress {
                socks_address(stage, wanted).await
            } else {
                Reached::Stream(transparent(stage, wanted).await)
            }
        }
    }
}

/// The address that a program inside would use: the literal, or our answer for the name.
fn address_of(stage: &Stage, host: &str) -> Option<std::net::IpAddr> {
    match host.parse::<Host>() {
        Ok(Host::Address(address)) => Some(address),
        Ok(Host::Name(_)) => resolve(stage, host).map(Into::into),
        Err(_) => None,
    }
}

pub(crate) async fn connect(stage: &Stage, authority: &str) -> Reached {
    let mut stream = TcpStream::connect(stage.http).await.unwrap();
    let request = format!("CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let head = read_head(&mut stream).await;
    if head.starts_with("HTTP/1.1 200 ") {
        return Reached::Stream(stream);
    }
    let mut rest = String::new();
    drop(timeout(Duration::from_secs(5), stream.read_to_string(&mut rest)).await);
    Reached::No(head + &rest)
}

pub(crate) async fn socks_name(stage: &Stage, name: &[u8], port: u16) -> Reached {
    let mut request = vec![5, 1, 0, 3, u8::try_from(name.len()).unwrap_or(255)];
    request.extend_from_slice(name.get(..name.len().min(255)).unwrap());
    request.extend_from_slice(&port.to_be_bytes());
    socks(stage, &request).await
}

async fn socks_address(stage: &Stage, wanted: SocketAddr) -> Reached {
    let mut request = vec![5, 1, 0];
    match wanted.ip() {
        std::net::IpAddr::V4(address) => {
            request.push(1);
            request.extend_from_slice(&address.octets());
        }
        std::net::IpAddr::V6(address) => {
            request.push(4);
            request.extend_from_slice(&address.octets());
        }
    }
    request.extend_from_slice(&wanted.port().to_be_bytes());
    socks(stage, &request).await
}

pub(crate) async fn socks(stage: &Stage, request: &[u8]) -> Reached {
    let mut stream = TcpStream::connect(stage.socks).await.unwrap();
    stream.write_all(&[5, 1, 0]).await.unwrap();
    let mut greeting = [0; 2];
    stream.read_exact(&mut greeting).await.unwrap();
    assert_eq!(greeting, [5, 0]);
    stream.write_all(request).await.unwrap();
    let mut reply = [0; 10];
    match timeout(Duration::from_secs(5), stream.read_exact(&mut reply)).await {
        Ok(Ok(_)) if reply[1] == 0 => Reached::Stream(stream),
        Ok(Ok(_)) => Reached::No(format!("reply {}", reply[1])),
        Ok(Err(error)) => Reached::No(error.to_string()),
        Err(_) => Reached::No("no reply".to_owned()),
    }
}

/// A connection that the kernel has brought here because every address is local.
pub(crate) async fn transparent(stage: &Stage, wanted: SocketAddr) -> TcpStream {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let inside = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let (accepted, _) = listener.accept().await.unwrap();
    stage.gateway.adopt(accepted, wanted);
    inside
}

/// What our own resolver says.
pub(crate) fn resolve(stage: &Stage, name: &str) -> Option<Ipv4Addr> {
    let answer = ask(stage, name, RecordType::A)?;
    answer.answers.iter().find_map(|record| {
        if let RData::A(address) = &record.data { Some(address.0) } else { None }
    })
}

pub(crate) fn ask(stage: &Stage, name: &str, kind: RecordType) -> Option<Message> {
    let mut question = Message::query();
    question.metadata.recursion_desired = true;
    question.add_query(Query::query(Name::from_ascii(name).ok()?, kind));
    let answer = stage.gateway.answer(&question.to_vec().unwrap())?;
    let answer = Message::from_vec(&answer).unwrap();
    assert_eq!(answer.metadata.id, question.metadata.id);
    assert!(matches!(
        answer.metadata.response_code,
        ResponseCode::NoError | ResponseCode::NXDomain | ResponseCode::Refused
    ));
    Some(answer)
}

/// A head, up to the empty line.
pub(crate) async fn read_head(stream: &mut (impl AsyncReadExt + Unpin)) -> String {
    let read = async {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            match stream.read_u8().await {
                Ok(byte) => head.push(byte),
                Err(_) => break,
            }
        }
        String::from_utf8_lossy(&head).into_owned()
    };
    timeout(Duration::from_secs(10), read).await.expect("a head in time")
}

/// Sends `request` as it is to the HTTP entrance, and reads until the end.
pub(crate) async fn raw_http(stage: &Stage, request: &[u8]) -> String {
    let mut stream = TcpStream::connect(stage.http).await.unwrap();
    // A peer that refuses early may have gone before everything is said.
    drop(stream.write_all(request).await);
    let mut answer = Vec::new();
    drop(
        timeout(Duration::from_secs(10), stream.read_to_end(&mut answer))
            .await
            .expect("an end"),
    );
    String::from_utf8_lossy(&answer).into_owned()
}

/// Whether the other side has gone.
pub(crate) async fn is_over(stream: &mut TcpStream) -> bool {
    let mut buffer = [0; 4096];
    loop {
        match timeout(Duration::from_secs(5), stream.read(&mut buffer)).await {
            Ok(Ok(0) | Err(_)) => return true,
            Ok(Ok(_)) => {}
            Err(_) => return false,
        }
    }
}
