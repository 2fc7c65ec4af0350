//! A server whose requests are calls of a device: tokio, and nothing of it inside of `hamr`. Each
//! line of four numbers that a client sends is one call; the reply is their sum, made on the device.
//!
//! `cargo run --release --example server` starts the server and 1,000 clients in this program, each
//! of which sends 20 requests, and prints the rate. With an address (`-- 127.0.0.1:7000`, then
//! perhaps a device) it listens there: `echo 1 2 3 4 | nc -N 127.0.0.1 7000`.

mod help;

use hamr::{CallError, Image, Options, Runtime, SharedStream};
use hamr_kernels::bench::sum_4;
use std::error::Error;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Instant;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::TcpListener;

const CLIENTS: u64 = 1000;
const REQUESTS: u64 = 20;

type Failure = Box<dyn Error + Send + Sync>;

fn main() -> ExitCode {
    if help::is_wanted("server [ADDRESS [DEVICE]]") {
        return ExitCode::SUCCESS;
    }
    match run(std::env::args_os().skip(1).map(|text| text.to_string_lossy().into_owned())) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("server: {e}");
            ExitCode::from(2)
        }
    }
}

fn run(mut arguments: impl Iterator<Item = String>) -> Result<(), Failure> {
    let parse = |text: &String| match text.parse::<SocketAddr>() {
        Ok(address) => Ok(address),
        Err(_) => Err(format!("expected an address such as 127.0.0.1:7000, got {text}")),
    };
    let address = arguments.next().as_ref().map(parse).transpose()?;
    let device = arguments.next().unwrap_or_else(|| "shm".into());
    // A connection has one call in flight, so the ring has a slot for each.
    let options = Options { ring: 1024, ..Options::default() };
    let node = Runtime::new()?.open_with(&device, Image::find("hamr-bench-image")?, options)?;
    let stream = node.shared_stream()?;
    let tokio = tokio::runtime::Builder::new_multi_thread().enable_io().build()?;
    match address {
        Some(address) => tokio.block_on(listen(address, stream)),
        None => tokio.block_on(demonstrate(stream)),
    }
}

async fn listen(address: SocketAddr, stream: SharedStream) -> Result<(), Failure> {
    let listener = TcpListener::bind(address).await?;
    println!("listening on {}", listener.local_addr()?);
    loop {
        let (connection, client) = listener.accept().await?;
        let stream = stream.clone();
        tokio::spawn(async move {
            let (from, to) = connection.into_split();
            if let Err(e) = serve(from, to, stream).await {
                eprintln!("server: {client}: {e}");
            }
        });
    }
}

/// One connection: a call for each line.
async fn serve(
    from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    stream: SharedStream,
) -> Result<(), Failure> {
    let mut lines = BufReader::new(from).lines();
    while let Some(line) = lines.next_line().await? {
        // A bad line is the client's mistake, a failed call is told to it: the server goes on.
        let reply = match numbers(&line) {
            Err(why) => format!("error: {why}\n"),
            Ok([a, b, c, d]) => match sum(&stream, a, b, c, d).await {
                Ok(sum) => format!("{sum}\n"),
                Err(why) => format!("error: {why}\n"),
            },
        };
        to.write_all(reply.as_bytes()).await?;
    }
    Ok(())
}

async fn sum(stream: &SharedStream, a: u64, b: u64, c: u64, d: u64) -> Result<u64, CallError> {
    stream.offload(sum_4::with(a, b, c, d))?.await
}

fn numbers(line: &str) -> Result<[u64; 4], String> {
    let numbers = line.split_whitespace().map(str::parse).collect::<Result<Vec<u64>, _>>();
    numbers.ok().and_then(|n| n.try_into().ok()).ok_or_else(|| format!("expected four numbers, got `{}`", line.trim()))
}

/// 1,000 connections inside of this program.
async fn demonstrate(stream: SharedStream) -> Result<(), Failure> {
    let begin = Instant::now();
    let mut clients = Vec::new();
    for client in 0..CLIENTS {
        let (here, there) = tokio::io::duplex(256);
        let (from, to) = tokio::io::split(there);
        tokio::spawn(serve(from, to, stream.clone()));
        clients.push(tokio::spawn(ask(here, client)));
    }
    for client in clients {
        client.await??;
    }
    let (took, calls) = (begin.elapsed(), CLIENTS * REQUESTS);
    println!("{CLIENTS} tasks, {calls} calls in {took:.1?}: {:.0} calls a second", calls as f64 / took.as_secs_f64());
    Ok(())
}

/// One client: sends requests one after the other and checks each reply.
async fn ask(connection: tokio::io::DuplexStream, client: u64) -> Result<(), Failure> {
    let (from, mut to) = tokio::io::split(connection);
    let mut replies = BufReader::new(from).lines();
    for n in 0..REQUESTS {
        to.write_all(format!("{client} {n} 1 2\n").as_bytes()).await?;
        let reply = replies.next_line().await?.ok_or("the server closed the connection")?;
        if reply != (client + n + 3).to_string() {
            return Err(format!("expected {}, got {reply}", client + n + 3).into());
        }
    }
    Ok(())
}
