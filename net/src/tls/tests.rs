use super::*;
use crate::channel::Channel;
use crate::key::Key;
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(20);

fn key(byte: u8) -> Key {
    Key(Arc::new(Identities::derive(&[byte; 32]).expect("random bytes")))
}

fn pair() -> (UnixStream, UnixStream) {
    let (a, b) = UnixStream::pair().expect("a socket pair");
    b.set_nonblocking(true).expect("a socket");
    (a, b)
}

fn proven(mut channel: Channel) -> Result<(), Broken> {
    let end = Instant::now() + LIMIT;
    while !channel.is_proven()? {
        assert!(Instant::now() < end, "no end of the handshake");
        channel.wait(LIMIT);
    }
    Ok(())
}

/// What our server says to this client, and how the client's handshake went.
fn our_server(client: &Arc<ClientConfig>, key: &Key) -> (Result<(), Broken>, Result<HandshakeKind, Error>) {
    let (mut a, b) = pair();
    let client = Arc::clone(client);
    let other = std::thread::spawn(move || {
        let mut tls = ClientConnection::new(client, "hamr".try_into().expect("a name")).expect("a client");
        while tls.is_handshaking() {
            if let Err(e) = tls.complete_io(&mut a) {
                let inner = e.get_ref().and_then(|e| e.downcast_ref::<Error>()).cloned();
                return Err(inner.unwrap_or(Error::General(e.to_string())));
            }
        }
        let kind = tls.handshake_kind().expect("it is over");
        // Tickets of the server would come now; an error is an alert.
        tls.writer().write_all(b"x").expect("room");
        let _ = tls.complete_io(&mut a);
        let _ = tls.complete_io(&mut a);
        Ok(kind)
    });
    let server = proven(Channel::new(b.into(), End::Server, Some(key), LIMIT).expect("a server"));
    (server, other.join().expect("no panic"))
}

/// What our host says to this server.
fn our_host(server: ServerConfig, key: &Key) -> Result<(), Broken> {
    let (mut a, b) = pair();
    let other = std::thread::spawn(move || {
        let mut tls = ServerConnection::new(Arc::new(server)).expect("a server");
        // An error is an alert of the host, or its end.
        while tls.is_handshaking() && tls.complete_io(&mut a).is_ok() {}
        let _ = a.read(&mut [0; 1]);
    });
    let host = proven(Channel::new(b.into(), End::Host, Some(key), LIMIT).expect("a host"));
    other.join().expect("no panic");
    host
}

fn client_of(key: &Key) -> ClientConfig {
    (*key.0.client).clone()
}

fn server_of(key: &Key) -> ServerConfig {
    (*key.0.server).clone()
}

#[test]
fn one_key_proves_both_ends() {
    let key = key(7);
    assert_eq!(our_server(&key.0.client, &key), (Ok(()), Ok(HandshakeKind::Full)));
    assert_eq!(our_host(server_of(&key), &key), Ok(()));
}

#[test]
fn another_key_is_refused_by_both_ends() {
    let (mine, other) = (key(7), key(8));
    let (server, client) = our_server(&other.0.client, &mine);
    assert_eq!(server, Err(Broken::Key));
    assert!(matches!(client, Err(Error::InvalidCertificate(_))), "{client:?}");
    assert_eq!(our_host(server_of(&other), &mine), Err(Broken::Key));
}

/// A client that takes any server for right.
#[derive(Debug)]
struct Trusting;

impl Trusting {
    fn is_signed(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }
}

impl ServerCertVerifier for Trusting {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }
    verifies_signatures!();
}

fn trusting(own: Option<Arc<dyn rustls::client::ResolvesClientCert>>) -> Arc<ClientConfig> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let versions = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .expect("a version")
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Trusting));
    let mut config = match own {
        Some(own) => versions.with_client_cert_resolver(own),
        None => versions.with_no_client_auth(),
    };
    config.alpn_protocols = vec![ALPN.into()];
    Arc::new(config)
}

fn resolved(key: &Key) -> Arc<CertifiedKey> {
    let hello: &dyn rustls::client::ResolvesClientCert = &*key.0.client.client_auth_cert_resolver;
    hello.resolve(&[], &[SignatureScheme::ED25519]).expect("a key")
}

#[test]
fn a_client_without_a_key_is_refused() {
    let (server, _) = our_server(&trusting(None), &key(7));
    // It does not even know of such keys.
    assert_eq!(server, Err(Broken::NotHamr));
}

#[test]
fn a_client_that_trusts_any_server_needs_the_key_all_the_same() {
    let own = AlwaysResolvesClientRawPublicKeys::new(resolved(&key(8)));
    let (server, _) = our_server(&trusting(Some(Arc::new(own))), &key(7));
    assert_eq!(server, Err(Broken::Key));
    // And with the key it has it, so that the test above fails for the key alone.
    let own = AlwaysResolvesClientRawPublicKeys::new(resolved(&key(7)));
    assert_eq!(our_server(&trusting(Some(Arc::new(own))), &key(7)).0, Ok(()));
}

#[test]
fn an_identity_is_good_for_one_role() {
    // Who controls the network cannot make a server of a host, or the reverse.
    let key = key(7);
    let of_server = server_of(&key);
    assert_ne!(key.0.host_key, key.0.server_key);
    let host_as_server = {
        let mut config = of_server;
        config.cert_resolver = Arc::new(AlwaysResolvesServerRawPublicKeys::new(resolved(&key)));
        config
    };
    assert_eq!(our_host(host_as_server, &key), Err(Broken::Key));
}

#[test]
fn nothing_is_resumed() {
    let key = key(7);
    let mut willing = client_of(&key);
    willing.resumption = Resumption::in_memory_sessions(8);
    willing.enable_early_data = true;
    let willing = Arc::new(willing);
    for _ in 0..3 {
        assert_eq!(our_server(&willing, &key), (Ok(()), Ok(HandshakeKind::Full)));
    }
    // Nor is what a server offers, by our host: two connections with one configuration.
    let mut offers = server_of(&key);
    offers.send_tls13_tickets = 4;
    offers.session_storage = rustls::server::ServerSessionMemoryCache::new(8);
    for _ in 0..2 {
        assert_eq!(our_host(offers.clone(), &key), Ok(()));
    }
}

#[test]
fn the_protocol_is_named_by_both() {
    let key = key(7);
    for names in [vec![], vec![b"h2".to_vec()]] {
        let mut client = client_of(&key);
        client.alpn_protocols.clone_from(&names);
        let (server, _) = our_server(&Arc::new(client), &key);
        assert_eq!(server, Err(Broken::NotHamr), "{names:?}");
        let mut server = server_of(&key);
        server.alpn_protocols.clone_from(&names);
        assert_eq!(our_host(server, &key), Err(Broken::NotHamr), "{names:?}");
    }
}

/// A key as a certificate, not as it is.
#[derive(Debug)]
struct Certificate(Arc<CertifiedKey>);

impl rustls::client::ResolvesClientCert for Certificate {
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.0))
    }
    fn has_certs(&self) -> bool {
        true
    }
}

#[test]
fn certificates_are_refused() {
    let key = key(7);
    let (server, _) = our_server(&trusting(Some(Arc::new(Certificate(resolved(&key))))), &key);
    assert!(server.is_err());
}

#[test]
fn configurations_are_as_the_checklist_says() {
    let key = key(7);
    let (client, server) = (&key.0.client, &key.0.server);
    assert_eq!((server.send_tls13_tickets, server.max_early_data_size), (0, 0));
    assert!(!server.session_storage.can_cache() && !server.ticketer.enabled());
    assert!(!client.enable_early_data && !client.enable_sni);
    assert!(!client.key_log.will_log("CLIENT_TRAFFIC_SECRET_0") && !server.key_log.will_log("SERVER_TRAFFIC_SECRET_0"));
    let only = Only {
        key: Vec::new(),
        algorithms: rustls::crypto::ring::default_provider().signature_verification_algorithms,
    };
    let (as_host, as_server): (&dyn ServerCertVerifier, &dyn ClientCertVerifier) = (&only, &only);
    assert!(as_host.requires_raw_public_keys() && as_server.requires_raw_public_keys());
    assert!(as_server.offer_client_auth() && as_server.client_auth_mandatory());
    assert_eq!(as_host.supported_verify_schemes(), [SignatureScheme::ED25519]);
    assert_eq!(as_server.supported_verify_schemes(), [SignatureScheme::ED25519]);
}

#[test]
fn tls_1_2_is_refused() {
    // A hello with one good suite and no extensions, which is all that TLS 1.2 needs.
    let mut hello = vec![0x16, 3, 1, 0, 45, 1, 0, 0, 41, 3, 3];
    hello.extend([9; 32]);
    hello.extend([0, 0, 2, 0xc0, 0x2f, 1, 0]);
    let (mut a, b) = pair();
    a.write_all(&hello).expect("a socket");
    let server = proven(Channel::new(b.into(), End::Server, Some(&key(7)), LIMIT).expect("a server"));
    assert_eq!(server, Err(Broken::NotHamr));
}
