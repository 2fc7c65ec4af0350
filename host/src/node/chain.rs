//! Chains: several calls in one message, each with the result of the one before if it wants it.

use super::Node;
use crate::keys::{Keys, why_not};
use crate::{CallError, CallOptions, HandlerInfo, LocalStream, Pending, Site, SubmitError};
use hamr_comm::abi::slot::{INLINE_BYTES, INLINE_WORDS};
use hamr_comm::abi::table::record_flag;
use hamr_comm::chain::{After, Link, MAX_CHAIN, MAX_LINK, Run, Stop};
use hamr_comm::migrate::{Decoder, Encoder, Malformed, NamedBuffer, VisitBuffer};
use hamr_comm::{Call, Context, Enter, Handler, Migratable, ValueOf};
use std::marker::PhantomData;

/// Calls that a device runs one behind the other, of which the last returns a `V`: begins with
/// [`chain`], and is run by [`Node::sync_chain`].
#[must_use = "a chain does nothing until it is given to `sync_chain` or `offload_chain`"]
pub struct Chain<V> {
    links: Vec<Bound>,
    /// The words of all links, each with its arguments behind it.
    words: Vec<u64>,
    buffers: Vec<NamedBuffer>,
    _value: PhantomData<fn() -> V>,
}

/// A link whose key in the device's table is not known yet.
struct Bound {
    handler: &'static Unknown,
    /// Where its word is.
    at: usize,
}

/// What is known of a handler without a device.
struct Unknown {
    tag: u64,
    why_not: fn(&[HandlerInfo], Box<Site>) -> SubmitError,
    name: &'static str,
}

/// A chain of one call.
pub fn chain<H: Handler>(call: Call<H>) -> Chain<ValueOf<H>> {
    let (links, words) = (Vec::with_capacity(16), Vec::with_capacity(MAX_CHAIN / 8));
    Chain::<()> { links, words, buffers: Vec::new(), _value: PhantomData }.with::<H>(false, &call.args)
}

impl<V: Migratable> Chain<V> {
    /// Then calls a handler whose first argument is the result so far.
    pub fn then<H: Handler, Rest: Migratable>(self, next: After<H, V, Rest>) -> Chain<ValueOf<H>> {
        self.with::<H>(true, &next.rest)
    }

    /// Then makes a call, whatever the result so far.
    pub fn then_call<H: Handler>(self, next: Call<H>) -> Chain<ValueOf<H>> {
        self.with::<H>(false, &next.args)
    }

    #[inline]
    fn with<H: Handler>(mut self, takes: bool, args: &impl Migratable) -> Chain<ValueOf<H>> {
        const { assert!(H::FLAGS & (record_flag::TASK | record_flag::HOST) == 0, "calls of a chain are of inline handlers") };
        let handler = const { &Unknown { tag: Keys::tag::<H>(), why_not: why_not::<H>, name: H::NAME } };
        self.links.push(Bound { handler, at: self.words.len() });
        self.push(takes, H::ID as u32, args);
        args.visit_buffers(&mut |named: NamedBuffer| self.buffers.push(named));
        Chain { links: self.links, words: self.words, buffers: self.buffers, _value: PhantomData }
    }
}

impl<V> Chain<V> {
    /// Adds a link and its arguments.
    #[inline(always)]
    fn push<A: Migratable>(&mut self, takes: bool, id: u32, args: &A) {
        // One that is too long makes the chain too long.
        let link = |len: usize| Link { key: 0, len: len.min(MAX_CHAIN) as u16, takes, id }.to_word();
        if let Some(len) = A::SIZE
            && len <= INLINE_BYTES
        {
            // The length is a constant, so that the checks of the encoder fold away.
            let mut words = [0; 1 + INLINE_WORDS];
            let (head, rest) = words.split_at_mut(1);
            head[0] = link(len);
            args.encode(&mut Encoder::new(bytemuck::cast_slice_mut(rest).split_at_mut(len).0));
            self.words.extend_from_slice(words.split_at(1 + len.div_ceil(8)).0);
            return;
        }
        let mut counted = Encoder::new(&mut []);
        args.encode(&mut counted);
        let (at, len) = (self.words.len() + 1, counted.needed());
        self.words.push(link(len));
        self.words.resize(at + len.div_ceil(8), 0);
        if let Some(to) = self.words.get_mut(at..) {
            args.encode(&mut Encoder::new(bytemuck::cast_slice_mut(to)));
        }
    }
}

/// Stands for the handler that runs a chain, whose value is that of the last call.
#[doc(hidden)]
pub struct RunFor<V>(PhantomData<V>);

impl<V: Migratable + 'static> Handler for RunFor<V> {
    const NAME: &'static str = Run::NAME;
    const SIGNATURE: u64 = Run::SIGNATURE;
    const BODY: u64 = Run::BODY;
    const FLAGS: u32 = Run::FLAGS;
    type Kind = Context<'static>;
    type Args = Encoded;
    type Output = Result<V, Stop>;
    fn run(_: &mut <Self::Kind as Enter>::This<'_>, _: Encoded) -> Result<V, Stop> {
        hamr_comm::handler::no_body()
    }
}

/// Links with the device's keys, and the buffers that their arguments name.
#[doc(hidden)]
pub struct Encoded {
    words: Vec<u64>,
    buffers: Vec<NamedBuffer>,
}

impl Migratable for Encoded {
    const SIZE: Option<usize> = None;
    const SHAPE: u64 = 0;
    const TYPE_NAME: &'static str = "chain";
    const HAS_BUFFERS: bool = true;
    fn encode(&self, out: &mut Encoder<'_>) {
        out.bytes(bytemuck::cast_slice(&self.words));
    }
    fn decode(_: &mut Decoder<'_>) -> Result<Self, Malformed> {
        Err(Malformed)
    }
    fn visit_buffers(&self, visit: &mut impl VisitBuffer) {
        self.buffers.iter().for_each(|named| visit.visit(*named));
    }
}

impl Node {
    /// Runs the calls of a chain in one message, and waits for the value of the last. Each is an inline
    /// handler; the first that does not return a value ends the chain. The handlers' crate says
    /// `hamr_comm::chains!()`.
    ///
    /// ```no_run
    /// # use hamr_comm::{offload, Context};
    /// # #[offload] fn read(_: &mut Context, channel: u8) -> u32 { 0 }
    /// # #[offload] fn scaled(_: &mut Context, raw: u32, by: f32) -> f32 { 0.0 }
    /// # fn f(dev: &hamr::Node) -> Result<(), Box<dyn std::error::Error>> {
    /// let volts = dev.sync_chain(hamr::chain(read::with(3)).then(scaled::after(0.01)))?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As of [`Self::sync`]. [`CallError::Handler`] with a [`Stop`] says which call of the chain ended
    /// without a value; a panic's fault says where.
    pub fn sync_chain<V: Migratable + 'static>(&self, chain: Chain<V>) -> Result<V, CallError<Stop>> {
        let call = self.bind_chain(chain)?;
        if V::SIZE.is_some() { self.sync(call) } else { self.sync_with(call, CallOptions::reply_capacity(MAX_LINK)) }
    }

    /// Submits a chain as [`Self::offload`] does a call.
    ///
    /// # Errors
    /// See [`SubmitError`]: nothing was sent.
    pub fn offload_chain<V: Migratable + 'static>(
        &self,
        chain: Chain<V>,
    ) -> Result<Pending<RunFor<V>, LocalStream<'_>>, SubmitError> {
        let call = self.bind_chain(chain)?;
        if V::SIZE.is_some() {
            self.offload(call)
        } else {
            self.offload_with(call, CallOptions::reply_capacity(MAX_LINK))
        }
    }

    /// Puts the device's keys in.
    fn bind_chain<V: Migratable + 'static>(&self, chain: Chain<V>) -> Result<Call<RunFor<V>>, SubmitError> {
        let device = self.device();
        let Chain { links, mut words, buffers, .. } = chain;
        let len = size_of_val(&*words);
        if len > MAX_CHAIN {
            let site = device.site::<Run>("submitting");
            return Err(SubmitError::TooLong { site, len, limit: MAX_CHAIN });
        }
        let unbound = device.with_keys(|keys| {
            links.iter().find(|Bound { handler, at }| {
                let key = keys.key_of(handler.tag);
                if let (Some(word), Some(key)) = (words.get_mut(*at), key) {
                    *word |= u64::from(key.0);
                }
                key.is_none()
            })
        });
        if let Some(Bound { handler, .. }) = unbound {
            let site = device.site::<Run>("binding a call of a chain");
            let mut error = (handler.why_not)(&device.running().handlers, site);
            error.rename(handler.name);
            return Err(error);
        }
        Ok(Call::new(Encoded { words, buffers }))
    }
}
