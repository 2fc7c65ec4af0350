//! TLS 1.3 between two identities, never resumed. What a side accepts is checked twice: by its verifier in the handshake,
//! and behind it by [`Tls::is_proven`].

use crate::failure::Broken;
use crate::frame::End;
use ring::hkdf;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{AlwaysResolvesClientRawPublicKeys, Resumption};
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, verify_tls13_signature_with_raw_key};
use rustls::pki_types::{
    CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName, SubjectPublicKeyInfoDer, UnixTime,
};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{AlwaysResolvesServerRawPublicKeys, NoServerSessionStorage};
use rustls::sign::CertifiedKey;
use rustls::{
    AlertDescription, CertificateError, ClientConfig, ClientConnection, Connection, DigitallySignedStruct,
    DistinguishedName, Error, HandshakeKind, PeerIncompatible, ProtocolVersion, ServerConfig, ServerConnection,
    SignatureScheme,
};
use std::sync::Arc;
use zeroize::Zeroizing;

/// The protocol that both must name.
const ALPN: &[u8] = b"hamr/1";
/// Before the 32 bytes of an Ed25519 key in PKCS#8.
const PKCS8: [u8; 16] = [0x30, 0x2e, 2, 1, 0, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 4, 0x22, 4, 0x20];

/// The two configurations that a key gives.
pub(crate) struct Identities {
    client: Arc<ClientConfig>,
    server: Arc<ServerConfig>,
    /// Public keys of the host and the server.
    host_key: Vec<u8>,
    server_key: Vec<u8>,
}

impl Identities {
    /// `None` when the system has no random bytes.
    pub(crate) fn derive(key: &[u8; 32]) -> Option<Self> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let secret = hkdf::Salt::new(hkdf::HKDF_SHA256, &[]).extract(key);
        let identity = |label: &'static [u8]| {
            let mut document = Zeroizing::new([0; PKCS8.len() + 32]);
            let (head, seed) = document.split_at_mut(PKCS8.len());
            head.copy_from_slice(&PKCS8);
            secret.expand(&[label], hkdf::HKDF_SHA256).ok()?.fill(seed).ok()?;
            let document = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(&document[..]));
            let key = provider.key_provider.load_private_key(document.clone_key()).ok()?;
            let public = key.public_key()?.to_vec();
            Some((Arc::new(CertifiedKey::new(vec![CertificateDer::from(public.clone())], key)), public))
        };
        let (host, host_key) = identity(b"hamr net 1 host")?;
        let (server, server_key) = identity(b"hamr net 1 server")?;
        let algorithms = provider.signature_verification_algorithms;
        let only = |key: &[u8]| Arc::new(Only { key: key.to_vec(), algorithms });
        Some(Self {
            client: Arc::new(client(&provider, only(&server_key), host)?),
            server: Arc::new(serving(&provider, only(&host_key), server)?),
            host_key,
            server_key,
        })
    }
}

#[cfg(test)]
impl Identities {
    /// The public keys of the host and the server.
    pub(crate) fn public(&self) -> (&[u8], &[u8]) {
        (&self.host_key, &self.server_key)
    }
}

fn client(provider: &Arc<CryptoProvider>, peer: Arc<Only>, own: Arc<CertifiedKey>) -> Option<ClientConfig> {
    let versions = ClientConfig::builder_with_provider(Arc::clone(provider))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .ok()?;
    let own = AlwaysResolvesClientRawPublicKeys::new(own);
    let mut config =
        versions.dangerous().with_custom_certificate_verifier(peer).with_client_cert_resolver(Arc::new(own));
    config.alpn_protocols = vec![ALPN.into()];
    config.resumption = Resumption::disabled();
    config.enable_sni = false;
    config.enable_early_data = false;
    Some(config)
}

fn serving(provider: &Arc<CryptoProvider>, peer: Arc<Only>, own: Arc<CertifiedKey>) -> Option<ServerConfig> {
    let versions = ServerConfig::builder_with_provider(Arc::clone(provider))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .ok()?;
    let own = AlwaysResolvesServerRawPublicKeys::new(own);
    let mut config = versions.with_client_cert_verifier(peer).with_cert_resolver(Arc::new(own));
    config.alpn_protocols = vec![ALPN.into()];
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    config.max_early_data_size = 0;
    Some(config)
}

/// One end of a connection.
pub(crate) struct Tls {
    pub(crate) connection: Connection,
    expected: Vec<u8>,
}

impl Tls {
    pub(crate) fn new(all: &Identities, end: End) -> Result<Self, Broken> {
        let (connection, expected) = match end {
            End::Host => {
                let name = ServerName::try_from("hamr").map_err(|_| Broken::NotHamr)?;
                let new = ClientConnection::new(Arc::clone(&all.client), name);
                (new.map(Connection::Client), &all.server_key)
            }
            End::Server => (ServerConnection::new(Arc::clone(&all.server)).map(Connection::Server), &all.host_key),
        };
        Ok(Self { connection: connection.map_err(|e| broken(&e))?, expected: expected.clone() })
    }

    /// Is the handshake over, and was it the one that there is to be?
    pub(crate) fn is_proven(&self) -> Result<bool, Broken> {
        let connection = &self.connection;
        if connection.is_handshaking() {
            return Ok(false);
        }
        let is_key = connection
            .peer_certificates()
            .is_some_and(|all| matches!(all, [key] if key.as_ref() == self.expected.as_slice()));
        let is_whole = connection.protocol_version() == Some(ProtocolVersion::TLSv1_3)
            && connection
                .handshake_kind()
                .is_some_and(|kind| matches!(kind, HandshakeKind::Full | HandshakeKind::FullWithHelloRetryRequest));
        match (connection.alpn_protocol() == Some(ALPN), is_key && is_whole) {
            (true, true) => Ok(true),
            (false, _) => Err(Broken::NotHamr),
            (true, false) => Err(Broken::Key),
        }
    }
}

/// What an error of TLS says of the other end.
pub(crate) fn broken(e: &Error) -> Broken {
    match e {
        Error::InvalidCertificate(_)
        | Error::NoCertificatesPresented
        | Error::AlertReceived(
            AlertDescription::BadCertificate
            | AlertDescription::CertificateUnknown
            | AlertDescription::UnknownCA
            | AlertDescription::AccessDenied
            | AlertDescription::DecryptError
            | AlertDescription::CertificateRequired,
        ) => Broken::Key,
        _ => Broken::NotHamr,
    }
}

/// Accepts one public key and nothing else.
#[derive(Debug)]
struct Only {
    key: Vec<u8>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl Only {
    fn is_this(&self, key: &CertificateDer<'_>, more: &[CertificateDer<'_>]) -> Result<(), Error> {
        let is_this = more.is_empty() && key.as_ref() == self.key.as_slice();
        is_this.then_some(()).ok_or(Error::InvalidCertificate(CertificateError::ApplicationVerificationFailure))
    }

    fn is_signed(
        &self,
        message: &[u8],
        key: &CertificateDer<'_>,
        by: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        if by.scheme != SignatureScheme::ED25519 {
            return Err(Error::InvalidCertificate(CertificateError::BadSignature));
        }
        verify_tls13_signature_with_raw_key(message, &SubjectPublicKeyInfoDer::from(key.as_ref()), by, &self.algorithms)
    }
}

/// What the traits of both ends ask for alike.
macro_rules! verifies_signatures {
    () => {
        fn verify_tls12_signature(
            &self,
            _: &[u8],
            _: &CertificateDer<'_>,
            _: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            // It is not built in; an answer for it is asked for all the same.
            Err(Error::PeerIncompatible(PeerIncompatible::Tls12NotOffered))
        }

        fn verify_tls13_signature(
            &self,
            message: &[u8],
            key: &CertificateDer<'_>,
            by: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            self.is_signed(message, key, by)
        }

        fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
            vec![SignatureScheme::ED25519]
        }

        fn requires_raw_public_keys(&self) -> bool {
            true
        }
    };
}

impl ServerCertVerifier for Only {
    fn verify_server_cert(
        &self,
        key: &CertificateDer<'_>,
        more: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.is_this(key, more).map(|()| ServerCertVerified::assertion())
    }

    verifies_signatures!();
}

impl ClientCertVerifier for Only {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        key: &CertificateDer<'_>,
        more: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        self.is_this(key, more).map(|()| ClientCertVerified::assertion())
    }

    verifies_signatures!();
}

// Behind the macro, which it uses.
#[cfg(test)]
mod tests;
