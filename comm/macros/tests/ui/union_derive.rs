//! Types without one shape.
use hamr_comm::Migratable;

#[derive(Migratable)]
union Either {
    a: u32,
    b: f32,
}

#[derive(Migratable)]
enum Nothing {}

#[derive(Migratable)]
struct Borrows<'a> {
    text: &'a str,
}

#[derive(Migratable)]
struct Pointer(*const u8);

#[derive(Migratable)]
#[migratable(bincode)]
struct Unknown;

fn main() {}
