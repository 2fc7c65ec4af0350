//! Links that change what another link does.

use super::{Capabilities, Heap, HostEnds, Link, Peer};
use crate::ImageFile;
use hamr_comm::abi::section::SectionKind;
use hamr_comm::abi::window::{OutOfWindow, Shared, Window};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

/// A [`Link`] in front of another one: a method that it does not define is the other's.
pub trait Decorator: Send + Sync {
    /// The other link.
    fn inner(&self) -> &dyn Link;
    /// [`Link::kind`].
    fn kind(&self) -> &str {
        self.inner().kind()
    }
    /// [`Link::capabilities`].
    fn capabilities(&self) -> Capabilities {
        self.inner().capabilities()
    }
    /// [`Link::window`].
    fn window(&self) -> &Window<Shared> {
        self.inner().window()
    }
    /// [`Link::heap`].
    ///
    /// # Errors
    /// The other link's.
    fn heap(&self, off: u64, len: u64) -> Result<Heap, OutOfWindow> {
        self.inner().heap(off, len)
    }
    /// [`Link::notify`].
    fn notify(&self) {
        self.inner().notify();
    }
    /// [`Link::wait`].
    fn wait(&self, max_us: u32) {
        self.inner().wait(max_us);
    }
    /// [`Link::wake`].
    fn wake(&self) {
        self.inner().wake();
    }
    /// [`Link::watch`].
    fn watch(&self) {
        self.inner().watch();
    }
    /// [`Link::peer`].
    fn peer(&self) -> Peer {
        self.inner().peer()
    }
    /// [`Link::descriptors`].
    fn descriptors(&self) -> Vec<Arc<OwnedFd>> {
        self.inner().descriptors()
    }
    /// [`Link::doorbell`].
    fn doorbell(&self) -> u32 {
        self.inner().doorbell()
    }
    /// [`Link::exit_code`].
    fn exit_code(&self) -> Option<u8> {
        self.inner().exit_code()
    }
    /// [`Link::terminate`].
    fn terminate(&self) {
        self.inner().terminate();
    }
    /// [`Link::stop`].
    fn stop(&self, limit: Duration) {
        self.inner().stop(limit);
    }
    /// [`Link::outlives_host`].
    fn outlives_host(&self) -> bool {
        self.inner().outlives_host()
    }
    /// [`Link::release`].
    fn release(&self) {
        self.inner().release();
    }
    /// [`Link::image`].
    fn image(&self) -> Option<ImageFile> {
        self.inner().image()
    }
    /// [`Link::host_ends`].
    fn host_ends(&self) -> Option<HostEnds> {
        self.inner().host_ends()
    }
    /// [`Link::is_back`].
    fn is_back(&self, limit: Duration) -> Result<(), Option<String>> {
        self.inner().is_back(limit)
    }
    /// [`Link::check_image`].
    ///
    /// # Errors
    /// The other link's.
    fn check_image(&self, next: &ImageFile) -> Result<(), String> {
        self.inner().check_image(next)
    }
    /// [`Link::set_image`].
    ///
    /// # Errors
    /// The other link's.
    fn set_image(&self, image: &ImageFile) -> Result<(), String> {
        self.inner().set_image(image)
    }
    /// [`Link::remote`].
    fn remote(&self) -> Option<&str> {
        self.inner().remote()
    }
    /// [`Link::round_trip`].
    fn round_trip(&self) -> Option<Duration> {
        self.inner().round_trip()
    }
    /// [`Link::refresh`].
    fn refresh(&self, kind: SectionKind) {
        self.inner().refresh(kind);
    }
    /// [`Link::if_memory_is_other`].
    fn if_memory_is_other(&self, lose: &dyn Fn()) {
        self.inner().if_memory_is_other(lose);
    }
    /// [`Link::restart`].
    ///
    /// # Errors
    /// The other link's.
    fn restart(&self, limit: Duration) -> Result<(), String> {
        self.inner().restart(limit)
    }
}

impl<D: Decorator> Link for D {
    fn kind(&self) -> &str {
        Decorator::kind(self)
    }
    fn capabilities(&self) -> Capabilities {
        Decorator::capabilities(self)
    }
    fn window(&self) -> &Window<Shared> {
        Decorator::window(self)
    }
    fn heap(&self, off: u64, len: u64) -> Result<Heap, OutOfWindow> {
        Decorator::heap(self, off, len)
    }
    fn notify(&self) {
        Decorator::notify(self);
    }
    fn wait(&self, max_us: u32) {
        Decorator::wait(self, max_us);
    }
    fn wake(&self) {
        Decorator::wake(self);
    }
    fn watch(&self) {
        Decorator::watch(self);
    }
    fn peer(&self) -> Peer {
        Decorator::peer(self)
    }
    fn descriptors(&self) -> Vec<Arc<OwnedFd>> {
        Decorator::descriptors(self)
    }
    fn doorbell(&self) -> u32 {
        Decorator::doorbell(self)
    }
    fn exit_code(&self) -> Option<u8> {
        Decorator::exit_code(self)
    }
    fn terminate(&self) {
        Decorator::terminate(self);
    }
    fn stop(&self, limit: Duration) {
        Decorator::stop(self, limit);
    }
    fn outlives_host(&self) -> bool {
        Decorator::outlives_host(self)
    }
    fn release(&self) {
        Decorator::release(self);
    }
    fn image(&self) -> Option<ImageFile> {
        Decorator::image(self)
    }
    fn host_ends(&self) -> Option<HostEnds> {
        Decorator::host_ends(self)
    }
    fn is_back(&self, limit: Duration) -> Result<(), Option<String>> {
        Decorator::is_back(self, limit)
    }
    fn check_image(&self, next: &ImageFile) -> Result<(), String> {
        Decorator::check_image(self, next)
    }
    fn set_image(&self, image: &ImageFile) -> Result<(), String> {
        Decorator::set_image(self, image)
    }
    fn remote(&self) -> Option<&str> {
        Decorator::remote(self)
    }
    fn round_trip(&self) -> Option<Duration> {
        Decorator::round_trip(self)
    }
    fn refresh(&self, kind: SectionKind) {
        Decorator::refresh(self, kind);
    }
    fn if_memory_is_other(&self, lose: &dyn Fn()) {
        Decorator::if_memory_is_other(self, lose);
    }
    fn restart(&self, limit: Duration) -> Result<(), String> {
        Decorator::restart(self, limit)
    }
}

/// A link that its node and a test share.
impl<L: Link> Decorator for Arc<L> {
    fn inner(&self) -> &dyn Link {
        &**self
    }
}
