//! One program for each trouble: `incidents NAME [ARG]` runs until it is killed, or its trouble is over.
mod biased;
mod blocking;
mod cancel;
mod cancel_box;
mod coop;
mod descriptors;
mod driver;
mod endless;
mod export;
mod full_channel;
mod futurelock;
mod healthy;
mod impatient;
mod join_set;
mod lag;
mod leak;
mod lifo;
mod lost_answer;
mod mailbox;
mod mutex_block_on;
mod names;
mod panic;
mod parked_guard;
mod pool_dead;
mod recv;
mod retry;
mod rwlock;
mod slow_holder;
mod slow_owner;
mod smol_blocking;
mod spin;
mod std_mutex;
mod writer;
mod yield_loop;

fn main() {
    let name = std::env::args().nth(1).unwrap_or_default();
    match name.as_str() {
        "biased" => biased::main(),
        "blocking" => blocking::main(),
        "cancel" => cancel::main(),
        "cancel_box" => cancel_box::main(),
        "coop" => coop::main(),
        "descriptors" => descriptors::main(),
        "driver" => driver::main(),
        "endless" => endless::main(),
        "export" => export::main(),
        "full_channel" => full_channel::main(),
        "futurelock" => futurelock::main(),
        "healthy" => healthy::main(),
        "impatient" => impatient::main(),
        "join_set" => join_set::main(),
        "lag" => lag::main(),
        "leak" => leak::main(),
        "lifo" => lifo::main(),
        "lost_answer" => lost_answer::main(),
        "mailbox" => mailbox::main(),
        "mutex_block_on" => mutex_block_on::main(),
        "names" => names::main(),
        "panic" => panic::main(),
        "parked_guard" => parked_guard::main(),
        "pool_dead" => pool_dead::main(),
        "recv" => recv::main(),
        "retry" => retry::main(),
        "rwlock" => rwlock::main(),
        "slow_holder" => slow_holder::main(),
        "slow_owner" => slow_owner::main(),
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
