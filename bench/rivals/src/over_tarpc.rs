//! `tarpc` over TCP with bincode.

use super::{Failure, median, say};
use futures::StreamExt;
use std::net::{Ipv4Addr, SocketAddr};
use tarpc::context::{self, Context};
use tarpc::serde_transport::tcp;
use tarpc::server::{BaseChannel, Channel};
use tarpc::tokio_serde::formats::Bincode;

#[tarpc::service]
trait Nothing {
    async fn empty();
}

#[derive(Clone)]
struct Server;

impl Nothing for Server {
    async fn empty(self, _: Context) {}
}

pub(super) async fn serve() -> Result<(), Failure> {
    let mut listener = tcp::listen((Ipv4Addr::LOCALHOST, 0), Bincode::default).await?;
    say(listener.local_addr());
    while let Some(transport) = listener.next().await {
        let transport = transport?;
        transport.get_ref().set_nodelay(true)?;
        let calls = BaseChannel::with_defaults(transport).execute(Server.serve());
        // On this thread, without one task for each call.
        calls.for_each(|call| call).await;
    }
    Ok(())
}

pub(super) async fn calls(at: SocketAddr) -> Result<f64, Failure> {
    let transport = tcp::connect(at, Bincode::default).await?;
    transport.get_ref().set_nodelay(true)?;
    let client = NothingClient::new(tarpc::client::Config::default(), transport).spawn();
    median(|| async { Ok(client.empty(context::current()).await?) }).await
}
