//! What a packet says about itself.

use std::net::Ipv4Addr;

use bulkhead_backends::cable::{HARDWARE, PREFIX};

/// The longest that comes by a cable: the kernel's words, the frame, and as much as a length can say.
pub(super) const MOST: usize = PREFIX + FRAME + 65_535;

/// What comes before each packet on a wire: whom it is for, whom from, what it is.
const FRAME: usize = 14;
const IP: [u8; 2] = [0x08, 0x00];
/// A header without options.
const HEADER: usize = 20;
const TCP: u8 = 6;
const UDP: u8 = 17;
const ICMP: u8 = 1;

/// A packet that can be passed on, as far as anybody needs to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Packet {
    pub(super) from: Ipv4Addr,
    pub(super) to: Ipv4Addr,
    /// The port that it is for, if it is for one.
    pub(super) port: Option<u16>,
    /// Whether whoever sent it is told that it was refused.
    pub(super) answerable: bool,
    /// How long it is, without what only a cable needs.
    pub(super) length: usize,
}

/// Reads what comes by a cable; nothing that is not whole, or is a piece of something.
pub(super) fn read(bytes: &[u8]) -> Option<Packet> {
    let frame = bytes.get(PREFIX..)?;
    if frame.get(12..FRAME)? != IP {
        return None;
    }
    let packet = frame.get(FRAME..)?;
    let (version, length) = (packet.first()? >> 4, usize::from(packet.first()? & 15) * 4);
    let piece = u16::from_be_bytes(packet.get(6..8)?.try_into().ok()?) & 0x3fff;
    if version != 4 || length < HEADER || piece != 0 {
        return None;
    }
    let address = |at: usize| {
        let octets: [u8; 4] = packet.get(at..at + 4)?.try_into().ok()?;
        Some(Ipv4Addr::from(octets))
    };
    let protocol = *packet.get(9)?;
    let port =
        || Some(u16::from_be_bytes(packet.get(length + 2..length + 4)?.try_into().ok()?));
    Some(Packet {
        from: address(12)?,
        to: address(16)?,
        port: if matches!(protocol, TCP | UDP) { Some(port()?) } else { None },
        answerable: matches!(protocol, TCP | UDP),
        length: packet.len(),
    })
}

/// The answer that tells whoever sent `bytes` that nobody is there.
pub(super) fn refusal(bytes: &[u8], packet: &Packet) -> Option<Vec<u8>> {
    let original = bytes.get(PREFIX + FRAME..)?;
    // Its header and the beginning of what it carries, by which the sender knows it again.
    let header = usize::from(original.first()? & 15) * 4;
    let quoted = original.get(..header + 8)?;
    // Destination unreachable: port.
    let mut message = vec![3, 3, 0, 0, 0, 0, 0, 0];
    message.extend_from_slice(quoted);
    let sum = checksum(&message).to_be_bytes();
    message.get_mut(2..4)?.copy_from_slice(&sum);

    let length = u16::try_from(HEADER + message.len()).ok()?.to_be_bytes();
    let mut header = vec![0x45, 0, length[0], length[1], 0, 0, 0x40, 0, 64, ICMP, 0, 0];
    header.extend_from_slice(&packet.to.octets());
    header.extend_from_slice(&packet.from.octets());
    let sum = checksum(&header).to_be_bytes();
    header.get_mut(10..12)?.copy_from_slice(&sum);

    let mut answer = vec![0; PREFIX];
    answer.extend_from_slice(&HARDWARE);
    answer.extend_from_slice(&HARDWARE);
    answer.extend_from_slice(&IP);
    answer.append(&mut header);
    answer.append(&mut message);
    Some(answer)
}

/// Reads a packet for a fuzzer: who is refused is told so, and nobody else.
pub(crate) fn check(bytes: &[u8]) {
    let Some(packet) = read(bytes) else { return };
    let Some(answer) = refusal(bytes, &packet) else { return };
    let ends = read(&answer).map(|it| (it.from, it.to));
    assert_eq!(ends, Some((packet.to, packet.from)));
}

/// The checksum of the internet: the complement of the sum of all pairs, in ones' complement.
fn checksum(bytes: &[u8]) -> u16 {
    let pairs = bytes.chunks(2).map(|pair| {
        let low = pair.get(1).copied().unwrap_or_default();
        u32::from(pair.first().copied().unwrap_or_default()) << 8 | u32::from(low)
    });
    let mut sum: u32 = pairs.sum();
    loop {
        match u16::try_from(sum) {
            Ok(sum) => return !sum,
            Err(_) => sum = (sum & 0xffff) + (sum >> 16),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `198.19.0.1:40000` to `198.19.0.2:80`, the beginning of a connection.
    fn beginning() -> Vec<u8> {
        let mut bytes = vec![0; PREFIX];
        bytes.extend([HARDWARE, HARDWARE].concat());
        bytes.extend(IP);
        bytes.extend([0x45, 0, 0, 40, 0, 0, 0x40, 0, 64, TCP, 0, 0]);
        bytes.extend([198, 19, 0, 1, 198, 19, 0, 2]);
        bytes.extend(40_000_u16.to_be_bytes());
        bytes.extend(80_u16.to_be_bytes());
        bytes.extend([0; 16]);
        bytes
    }

    #[test]
    fn a_packet_says_whose_and_whom_for() {
        let packet = read(&beginning()).unwrap();
        assert_eq!(packet.from, Ipv4Addr::new(198, 19, 0, 1));
        assert_eq!(packet.to, Ipv4Addr::new(198, 19, 0, 2));
        assert_eq!(packet.port, Some(80));
        assert_eq!(packet.length, 40);
    }

    #[test]
    fn what_is_not_whole_or_something_else_is_nothing() {
        let whole = beginning();
        for length in 0..PREFIX + FRAME + HEADER + 4 {
            assert_eq!(read(&whole[..length]), None, "{length}");
        }
        let changed = |at: usize, to: u8| {
            let mut bytes = whole.clone();
            bytes[PREFIX + at] = to;
            read(&bytes)
        };
        assert_eq!(changed(12, 0x86), None);
        assert_eq!(changed(FRAME, 0x65), None);
        assert_eq!(changed(FRAME, 0x44), None);
        assert_eq!(changed(FRAME + 6, 0x20), None);
        assert_eq!(changed(FRAME + 7, 1), None);
    }

    #[test]
    fn a_refusal_goes_back_and_adds_up() {
        let bytes = beginning();
        let packet = read(&bytes).unwrap();
        let answer = refusal(&bytes, &packet).unwrap();
        let about = read(&answer).unwrap();
        assert_eq!((about.from, about.to), (packet.to, packet.from));
        assert!(!about.answerable);
        let ip = &answer[PREFIX + FRAME..];
        assert_eq!(checksum(&ip[..HEADER]), 0);
        assert_eq!(checksum(&ip[HEADER..]), 0);
    }
}
