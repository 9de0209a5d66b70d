//! Sandboxes on one private network reach each other by name, and nobody else reaches them.

use std::fs;

use serde_json::Value;

use crate::work::Work;

pub(super) const SERVER: &str = r#"
import socket, threading
tcp = socket.create_server(("0.0.0.0", 8080))
udp = socket.socket(type=socket.SOCK_DGRAM)
udp.bind(("0.0.0.0", 8081))
def answer_datagrams():
    while True:
        said, peer = udp.recvfrom(2000)
        udp.sendto(said.upper(), peer)
threading.Thread(target=answer_datagrams, daemon=True).start()
def answer(stream):
    with stream:
        asked = stream.recv(2000)
        body = b"x" * (8 << 20) if b"/big" in asked else b"hello"
        stream.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\nconnection: close\r\n\r\n" % len(body) + body)
print("up", flush=True)
while True:
    threading.Thread(target=answer, args=[tcp.accept()[0]], daemon=True).start()
"#;

/// Says what comes of reaching each of its arguments.
pub(super) const CLIENT: &str = r#"
import socket, sys, urllib.request
direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
def get(opener, url):
    return opener(url, timeout=30).read()
def tried(name, reach):
    try:
        print(name, reach())
    except OSError as error:
        print(name, "refused" if isinstance(getattr(error, "reason", error), (ConnectionRefusedError, socket.gaierror)) else repr(error))
for name in sys.argv[1:]:
    tried(f"{name} tcp", lambda: get(direct.open, f"http://{name}:8080/").decode())
    tried(f"{name} big", lambda: len(get(direct.open, f"http://{name}:8080/big")))
    tried(f"{name} proxied", lambda: get(urllib.request.urlopen, f"http://{name}:8080/").decode())
    def datagram():
        out = socket.socket(type=socket.SOCK_DGRAM)
        out.settimeout(10)
        out.connect((name, 8081))
        out.send(b"hello")
        return out.recv(99).decode()
    tried(f"{name} udp", datagram)
    tried(f"{name} gateway", lambda: socket.create_connection((name, 443), 10))
"#;

const SCENE: &str = r#"
client() { timeout 60 "$0" run "$@"; }
"$0" run --network lan --name db -- python3 -I -S server.py > db.out 2>&1 &
tries=0
until grep -q up db.out; do
    tries=$((tries + 1)); test $tries -lt 600 || { cat db.out; exit 1; }
    sleep 0.1
done
client --network lan --name web --report report.json -- python3 -I -S client.py db db.lan 198.19.0.1
echo outside
client --network other --name web -- python3 -I -S client.py db db.other 198.19.0.1 2> /dev/null
client --allow example.com -- python3 -I -S client.py 198.19.0.1 2> /dev/null | grep -v proxied
echo again
client --network lan --name db -- true
echo $?
kill $!; wait $!
echo gone
client --network lan --name web -- python3 -I -S client.py db 2> /dev/null
client --network lan --name db -- true
echo $?
"$0" create --network lan --name room > /dev/null
"$0" exec --detach room -- python3 -I -S server.py > /dev/null
client --network lan --name web -- sh -c 'until python3 -I -S client.py room | grep hello; do sleep 0.1; done'
"$0" rm --force room
"#;

fn check(work: &Work) {
    fs::write(work.host.project().join("server.py"), SERVER).unwrap();
    fs::write(work.host.project().join("client.py"), CLIENT).unwrap();
    let ran = work.shell(SCENE);
    let reached = |name: &str| {
        format!(
            "{name} tcp hello\n{name} big 8388608\n{name} proxied hello\n{name} udp HELLO\n\
             {name} gateway refused\n"
        )
    };
    let parts: Vec<&str> = ran.stdout.split_inclusive("outside\n").collect();
    let [inside, rest] = parts.as_slice() else { panic!("{}", ran.shown()) };
    let named = format!("{}{}", reached("db"), reached("db.lan"));
    assert!(inside.starts_with(&named), "{}", ran.shown());
    // By its address it is reached as well, though not by a proxy, which knows names only.
    assert!(inside.contains("198.19.0.1 tcp hello"), "{}", ran.shown());
    let (outside, rest) = rest.split_once("again\n").unwrap();
    assert!(!outside.to_lowercase().contains("hello"), "{}", ran.shown());
    assert!(outside.contains("db tcp refused"), "{}", ran.shown());
    assert!(outside.contains("198.19.0.1 tcp refused"), "{}", ran.shown());
    let taken = "there is a sandbox called `db` in the network `lan` already";
    assert!(ran.stderr.contains(taken), "{}", ran.shown());
    let (again, gone) = rest.split_once("gone\n").unwrap();
    assert_ne!(again, "0\n");
    assert!(gone.contains("db tcp refused") && gone.contains("\n0\n"), "{}", ran.shown());
    assert!(gone.contains("room tcp hello"), "{}", ran.shown());
    check_report(&fs::read_to_string(work.host.project().join("report.json")).unwrap());
}

/// What neighbours have said is counted, and apart from what went out, whichever way it took.
fn check_report(report: &str) {
    let report: Value = serde_json::from_str(report).unwrap();
    let egress = &report["egress"];
    let moved = |way: &str| egress["neighbours"][way].as_u64().unwrap();
    // Three times the big answer, and what it takes to ask for it.
    assert!(3 * (8 << 20) < moved("down"), "{egress}");
    assert!((1..1 << 20).contains(&moved("up")), "{egress}");
    assert_eq!((&egress["up"], &egress["down"]), (&Value::from(0), &Value::from(0)));
}

#[test]
fn sandboxes_on_one_network_reach_each_other_by_name_and_nobody_else_does() {
    check(&Work::new());
}

#[test]
fn those_of_an_ordinary_user_too() {
    check(&Work::of_ordinary_user());
}
