//! One program for each trouble: `incidents NAME [ARG]` runs until it is killed, or its trouble is over.
mod blocking;
mod cancel;
mod cancel_box;
mod coop;
mod descriptors;
mod driver;
mod futurelock;
mod healthy;
mod join_set;
mod leak;
mod lifo;
mod lost_answer;
mod mutex_block_on;
mod names;
mod panic;
mod pool_dead;
mod recv;
mod rwlock;
mod slow_holder;
mod smol_blocking;
mod spin;
mod std_mutex;
mod writer;
mod yield_loop;

fn main() {
    let name = std::env::args().nth(1).unwrap_or_default();
    match name.as_str() {
        "blocking" => blocking::main(),
        "cancel" => cancel::main(),
        "cancel_box" => cancel_box::main(),
        "coop" => coop::main(),
        "descriptors" => descriptors::main(),
        "driver" => driver::main(),
        "futurelock" => futurelock::main(),
        "healthy" => healthy::main(),
        "join_set" => join_set::main(),
        "leak" => leak::main(),
        "lifo" => lifo::main(),
        "lost_answer" => lost_answer::main(),
        "mutex_block_on" => mutex_block_on::main(),
        "names" => names::main(),
        "panic" => panic::main(),
        "pool_dead" => pool_dead::main(),
        "recv" => recv::main(),
        "rwlock" => rwlock::main(),
        "slow_holder" => slow_holder::main(),
        "smol_blocking" => smol_blocking::main(),
        "spin" => spin::main(),
        "std_mutex" => std_mutex::main(),
        "writer" => writer::main(),
        "yield_loop" => yield_loop::main(),
        _ => {
            eprintln!("there is no {name:?}");
            std::process::exit(2);
        }
    }
}
