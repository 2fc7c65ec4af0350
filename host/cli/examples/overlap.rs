//! Transfers beside computation: blocks go to the device while it works on the one before, through
//! two buffers. `cargo run --release --example overlap` prints the time of both ways and writes the
//! timeline to `overlap.svg`; `-- --device qemu:x86_64 FILE` with another device and file.

mod help;

use hamr::{BufferPtr, CallError, Node, PendingWork, SharedStream};
use hamr_kernels::demo::{axpy, fill};
use std::error::Error;
use std::fmt::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};

const BLOCKS: usize = 8;
const ELEMENTS: usize = 1 << 20;

/// What a bar of the timeline shows: from when to when the host knew it to be under way.
struct Bar {
    what: &'static str,
    begin: Duration,
    end: Duration,
}

#[hamr::main(image = "hamr-demo")]
fn main(dev: &Node) -> Result<(), Box<dyn Error>> {
    if help::is_wanted("overlap [--device NAME] [--image NAME|PATH] [--option NAME=VALUE]… [FILE.svg]") {
        return Ok(());
    }
    let file = hamr::start::arguments().into_iter().next().unwrap_or_else(|| "overlap.svg".into());
    let blocks: Vec<Arc<[f64]>> = (0..BLOCKS).map(|n| vec![n as f64; ELEMENTS].into()).collect();
    let buffers = [dev.allocate::<f64>(ELEMENTS)?, dev.allocate(ELEMENTS)?];
    let sum = dev.allocate::<f64>(ELEMENTS)?;
    let stream = dev.shared_stream()?;
    let mut timelines = Vec::new();
    // The first run touches the memory, and is not shown.
    for overlaps in [false, false, true] {
        stream.sync(fill::with(0.0, sum.ptr()))?;
        let places = buffers.each_ref().map(hamr::Buffer::ptr);
        timelines.push(run(dev, &stream, &blocks, places, sum.ptr(), overlaps)?);
        let expected = (0..BLOCKS).sum::<usize>() as f64;
        assert!(sum.read()?.iter().all(|element| *element == expected), "every block was added once");
    }
    let [_, one_by_one, overlapped] = &timelines[..] else { return Err("three runs".into()) };
    for (name, bars) in [("one by one", one_by_one), ("overlapped", overlapped)] {
        println!("{name}: {:.2} ms", last(bars).as_secs_f64() * 1e3);
    }
    std::fs::write(&file, svg(one_by_one, overlapped)?)?;
    println!("timeline: {}", file.to_string_lossy());
    Ok(())
}

/// Adds the blocks on the device. With `overlaps`, the next one is put while the last one is added.
fn run(
    dev: &Node,
    stream: &SharedStream,
    blocks: &[Arc<[f64]>],
    places: [BufferPtr<f64>; 2],
    sum: BufferPtr<f64>,
    overlaps: bool,
) -> Result<Vec<Bar>, Box<dyn Error>> {
    let (start, mut bars) = (Instant::now(), Vec::new());
    let put = |n: usize| -> Result<(Duration, PendingWork<_>), hamr::Error> {
        Ok((start.elapsed(), dev.put_async(blocks[n].clone(), places[n % 2])?))
    };
    let mut next = Some(put(0)?);
    for n in 0..blocks.len() {
        let (begin, transfer) = match next.take() {
            Some(begun) => begun,
            None => put(n)?,
        };
        transfer.wait()?;
        bars.push(Bar { what: "put", begin, end: start.elapsed() });
        let begin = start.elapsed();
        let call = stream.offload(axpy::with(1.0, places[n % 2], sum))?;
        // The buffer of the next block was read by the call before this one, which has ended.
        if overlaps && n + 1 < blocks.len() {
            next = Some(put(n + 1)?);
        }
        call.wait().map_err(|e: CallError<_>| e.to_string())?;
        bars.push(Bar { what: "call", begin, end: start.elapsed() });
    }
    Ok(bars)
}

fn last(bars: &[Bar]) -> Duration {
    bars.iter().map(|bar| bar.end).max().unwrap_or_default()
}

/// Two rows for each run, one of transfers and one of calls, over one axis of time.
fn svg(one_by_one: &[Bar], overlapped: &[Bar]) -> Result<String, std::fmt::Error> {
    let end = last(one_by_one).max(last(overlapped)).as_secs_f64();
    let scale = 900.0 / end;
    let mut text = String::from(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"1040\" height=\"270\" font-family=\"sans-serif\" font-size=\"13\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
    );
    writeln!(
        text,
        "<text x=\"8\" y=\"20\" font-size=\"16\">{BLOCKS} blocks of {} MiB, each put to the device and added there</text>",
        ELEMENTS >> 17
    )?;
    // Of 1, 2 and 5 times a power of ten the first step with at most ten ticks.
    let steps = (-9..3).flat_map(|power| [1.0, 2.0, 5.0].map(|first| first * 10f64.powi(power)));
    let step = steps.into_iter().find(|step| end / step <= 10.0).unwrap_or(end);
    for tick in 0..=(end / step) as u32 {
        let (x, ms) = (100.0 + f64::from(tick) * step * scale, f64::from(tick) * step * 1e3);
        writeln!(text, "<line x1=\"{x:.1}\" y1=\"32\" x2=\"{x:.1}\" y2=\"222\" stroke=\"#ccc\"/>")?;
        let ms = (ms * 1e6).round() / 1e6;
        writeln!(text, "<text x=\"{x:.1}\" y=\"238\" text-anchor=\"middle\">{ms}</text>")?;
    }
    text.push_str("<text x=\"550\" y=\"260\" text-anchor=\"middle\">milliseconds since the first put began</text>\n");
    for (top, name, bars) in [(36, "one by one", one_by_one), (130, "overlapped", overlapped)] {
        let took = last(bars).as_secs_f64() * 1e3;
        writeln!(text, "<text x=\"8\" y=\"{}\">{name}, {took:.2} ms</text>", top + 14)?;
        for (row, what, colour) in [(22, "put", "#4878a8"), (46, "call", "#d08030")] {
            writeln!(text, "<text x=\"24\" y=\"{}\">{what}</text>", top + row + 15)?;
            for bar in bars.iter().filter(|bar| bar.what == what) {
                let (x, width) = (bar.begin.as_secs_f64() * scale, (bar.end - bar.begin).as_secs_f64() * scale);
                let (x, y) = (100.0 + x, top + row);
                writeln!(text, "<rect x=\"{x:.1}\" y=\"{y}\" width=\"{width:.1}\" height=\"20\" fill=\"{colour}\"/>")?;
            }
        }
    }
    text.push_str("</svg>\n");
    Ok(text)
}
