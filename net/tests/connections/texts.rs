//! What a user reads when there is no connection.

use super::common::{self, LIMIT, SILENCE, Server, bounds, hello, version};
use hamr_net::frame::{Frame, Hello, Reason};
use hamr_net::key::Key;
use hamr_net::{Broken, Failure, Opening, resolve};
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::time::{Duration, Instant};

fn failure(at: SocketAddr, key: &Key, hello: &Hello<'_>, limit: Duration) -> String {
    let opening = Opening::begin(at, key, hello, bounds(), SILENCE).and_then(|opening| opening.finish(limit));
    opening.err().expect("no connection").to_string()
}

#[test]
fn nothing_listens_there() {
    // The port of a listener that is gone.
    let at = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("a port");
    assert_eq!(
        failure(at, &Key::random().expect("a key"), &hello(), LIMIT),
        format!(
            "tcp:{at}: expected a server, the connection was refused; start one with `hamr serve NAME --listen {at} --device …`"
        )
    );
}

#[test]
fn something_else_listens_there() {
    for said in [&b"SSH-2.0-OpenSSH_9.2\r\n"[..], b"HTTP/1.1 400 Bad Request\r\n\r\n", &[0; 64]] {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let at = listener.local_addr().expect("a port");
        let other = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a host");
            stream.write_all(said).expect("a host");
            // Until it goes.
            let _ = stream.read_to_end(&mut Vec::new());
        });
        let text = failure(at, &Key::random().expect("a key"), &hello(), LIMIT);
        assert_eq!(text, format!("expected hamr at {at}, got other bytes"));
        other.join().expect("no panic");
    }
}

#[test]
fn something_silent_listens_there() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let at = listener.local_addr().expect("a port");
    let begin = Instant::now();
    let text = failure(at, &Key::random().expect("a key"), &hello(), Duration::from_millis(100));
    assert_eq!(text, format!("expected an answer of {at} within 0.1 s, none came"));
    assert!(begin.elapsed() < Duration::from_secs(4), "{:?}", begin.elapsed());
}

#[test]
fn a_server_of_another_version_names_both() {
    let server = Server::start();
    let hello = Hello { abi: (version(900), version(901)), ..hello() };
    let text = failure(server.at, &server.key, &hello, LIMIT);
    let (min, max) = (hamr_shared_abi::version::AbiVersion::MIN, hamr_shared_abi::version::AbiVersion::CURRENT);
    let at = server.at;
    assert_eq!(
        text,
        format!("expected protocol 0.900 to 0.901, {at} speaks {min} to {max}; use the same version on both machines")
    );
    server.until_told("refused: it speaks protocol 0.900 to 0.901");
}

#[test]
fn a_refusal_says_why() {
    let server = Server::start();
    let at = server.at;
    for (reason, number, said, text) in [
        (
            Reason::Busy,
            840,
            "desk",
            format!(
                "{at} has a host, desk for 14 min; a second one is refused; wait for its end, or serve another device"
            ),
        ),
        (Reason::Name, 0, "other", format!("expected device board at {at}, it serves other")),
        (Reason::Window, 4096, "", format!("expected a window of at least 1048576 bytes, {at} has 4096")),
        (Reason::Stale, 0, "", format!("{at} refuses: there was a later connection")),
        (Reason::Other, 0, "the device did not start", format!("{at} refuses: the device did not start")),
    ] {
        let opening = common::open_with(&server, &server.key, &hello());
        let host = std::thread::spawn(move || opening.finish(LIMIT).err().expect("no connection"));
        server.arrival().refuse(reason, number, said);
        assert_eq!(host.join().expect("no panic").to_string(), text);
    }
    // A server that grants less than was asked for.
    let opening = common::open_with(&server, &server.key, &hello());
    let host = std::thread::spawn(move || opening.finish(LIMIT).err().expect("no connection"));
    let less = hamr_net::frame::Bounds { window: 4096, ..bounds() };
    let _server = server.arrival().grant(false, "shm", less).expect("a host");
    let text = format!("expected a window of at least 1048576 bytes, {at} has 4096");
    assert_eq!(host.join().expect("no panic").to_string(), text);
}

#[test]
fn an_address_is_a_host_and_a_port() {
    for bad in ["", "board", "board:", "board:port", "127.0.0.1", "[::1]", "127.0.0.1:70000", "no-such-name.invalid:1"]
    {
        let e = resolve(bad, LIMIT).expect_err("no address").to_string();
        assert!(e.starts_with(&format!("expected HOST:PORT, got `{bad}`: ")), "{e}");
    }
    for address in ["127.0.0.1:7000", "[::1]:7000"] {
        let all = resolve(address, LIMIT).expect("an address");
        assert_eq!(all.iter().map(ToString::to_string).collect::<Vec<_>>(), [address]);
    }
}

#[test]
fn a_server_that_goes_is_a_loss() {
    let server = Server::start();
    let mut host = common::opened(&server, &hello());
    let other = server.arrival().grant(true, "shm", bounds()).expect("a host");
    let mut host = host.finish().channel;
    drop(other);
    let why = common::closed(&mut host);
    // And stays the reason.
    assert_eq!(host.receive().err(), Some(why.clone()));
    assert_eq!(host.flush().err(), Some(why.clone()));
    let lost = |why| Failure::Lost { at: "board:7000".into(), why }.to_string();
    assert_eq!(lost(why), "the connection to board:7000 was lost: the other end closed it");
    assert_eq!(lost(Broken::Silent(SILENCE)), "the connection to board:7000 was lost: no answer for 5 s");
}

#[test]
fn a_peer_that_takes_nothing_ends_the_connection_within_the_silence() {
    let silence = Duration::from_secs(1);
    let server = Server::start();
    let opening = Opening::begin(server.at, &server.key, &hello(), bounds(), silence).expect("a server");
    let host = std::thread::spawn(move || opening.finish(LIMIT).expect("a connection"));
    // It has what the host sends, and never looks.
    let _other = server.arrival().grant(true, "shm", bounds()).expect("a host");
    let mut host = host.join().expect("it is granted").channel;
    let (mut begin, bytes) = (Instant::now(), [7; 60_000]);
    let why = loop {
        match host.flush() {
            Ok(true) => {
                begin = Instant::now();
                host.push(&Frame::Offer(&bytes)).expect("it fits");
            }
            Ok(false) => host.wait(Duration::from_millis(50)),
            Err(why) => break why,
        }
        assert!(begin.elapsed() < LIMIT, "no end");
    };
    assert_eq!(why.to_string(), "no answer for 1 s");
    assert!((0.5..8.0).contains(&begin.elapsed().as_secs_f32()), "{:?}", begin.elapsed());
}
