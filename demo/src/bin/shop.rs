//! A shop over TCP, one line per request: `price ITEM`, `buy ITEM`, `receipt ITEM`.
//!
//! It works, and it has the troubles of real services; `pollux report` shows each of them:
//!
//! - `sweep_expired` cleans the cache in the background and now and then waits for the disk with
//!   a blocking call: a worker stands still, and whoever is queued behind it with it.
//! - `buy` holds an async lock over an await, so buyers wait for each other.
//! - `refresh_prices` waits for its turn by asking again and again: many polls, no progress.
//! - `receipt` computes on the blocking pool, as it should.
//! - `audit` tasks are short and many, one per purchase.
//!
//! `shop --well` is the same shop without its troubles, in which pollux has to find none.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, Mutex};
use tokio::task;

struct Shop {
    stock: Mutex<HashMap<String, u64>>,
    prices: Mutex<HashMap<String, (u64, Instant)>>,
    generation: AtomicU64,
    journal: mpsc::Sender<String>,
    well: bool,
}

/// The price of an item; from the cache if it is there.
async fn price(shop: &Shop, item: &str) -> u64 {
    if let Some((price, _)) = shop.prices.lock().await.get(item) {
        return *price;
    }
    // The price service is two milliseconds away.
    tokio::time::sleep(Duration::from_millis(2)).await;
    let price = 100 + item.bytes().map(u64::from).sum::<u64>() % 900;
    let known = (price, Instant::now());
    shop.prices.lock().await.insert(item.to_owned(), known);
    price
}

/// Takes one piece out of the stock. The lock is held while the order is written down.
async fn buy(shop: &Arc<Shop>, item: &str) -> u64 {
    let mut stock = shop.stock.lock().await;
    let left = stock.entry(item.to_owned()).or_insert(1_000_000);
    *left -= 1;
    let left = *left;
    if shop.well {
        drop(stock);
        tokio::time::sleep(Duration::from_millis(1)).await;
    } else {
        tokio::time::sleep(Duration::from_millis(1)).await;
        drop(stock);
    }
    task::spawn(audit(shop.clone(), item.to_owned(), left));
    left
}

async fn audit(shop: Arc<Shop>, item: String, left: u64) {
    // A full journal is the journal's trouble, not the buyer's.
    let _ = shop.journal.send(format!("{item} {left}\n")).await;
}

/// A signature over the receipt, half a millisecond of pure computing.
fn sign(item: &str) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for round in 0..40_000u64 {
        for byte in item.bytes() {
            hash = (hash ^ u64::from(byte) ^ round).wrapping_mul(0x0100_0000_01b3);
        }
    }
    hash
}

async fn receipt(item: &str) -> u64 {
    let item = item.to_owned();
    task::spawn_blocking(move || sign(&item)).await.unwrap_or(0)
}

async fn serve_connection(stream: TcpStream, shop: Arc<Shop>) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let (reader, mut writer) = stream.into_split();
    let mut lines = BufReader::new(reader).lines();
    while let Some(line) = lines.next_line().await? {
        let (verb, item) = line.split_once(' ').unwrap_or((&line, ""));
        let answer = match verb {
            "price" => price(&shop, item).await,
            "buy" => buy(&shop, item).await,
            "receipt" => receipt(item).await,
            _ => break,
        };
        writer.write_all(format!("{answer}\n").as_bytes()).await?;
    }
    Ok(())
}

async fn sweep_expired(shop: Arc<Shop>) {
    let mut tick = tokio::time::interval(Duration::from_millis(100));
    for round in 1u64.. {
        tick.tick().await;
        let oldest = Instant::now() - Duration::from_millis(500);
        shop.prices
            .lock()
            .await
            .retain(|_, (_, since)| *since > oldest);
        shop.generation.fetch_add(1, Ordering::Relaxed);
        if round % 7 == 0 {
            let sync = Duration::from_millis(35);
            if shop.well {
                tokio::time::sleep(sync).await;
            } else {
                // "Only a short sync to disk." It blocks the worker.
                std::thread::sleep(sync);
            }
        }
    }
}

async fn refresh_prices(shop: Arc<Shop>) {
    loop {
        let seen = shop.generation.load(Ordering::Relaxed);
        tokio::time::sleep(Duration::from_millis(85)).await;
        while shop.generation.load(Ordering::Relaxed) == seen {
            for _ in 0..if shop.well { 0 } else { 50 } {
                task::yield_now().await;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        shop.prices.lock().await.remove("item-7");
    }
}

async fn write_journal(mut orders: mpsc::Receiver<String>) {
    let mut sink = tokio::io::sink();
    let mut batch = String::new();
    loop {
        tokio::select! {
            order = orders.recv() => match order {
                Some(order) => batch.push_str(&order),
                None => break,
            },
            _ = tokio::time::sleep(Duration::from_millis(20)), if !batch.is_empty() => {
                let _ = sink.write_all(batch.as_bytes()).await;
                batch.clear();
            }
        }
    }
}

fn main() -> std::io::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .thread_name("shop-worker")
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let (journal, orders) = mpsc::channel(256);
        let shop = Arc::new(Shop {
            stock: Mutex::new(HashMap::new()),
            prices: Mutex::new(HashMap::new()),
            generation: AtomicU64::new(0),
            journal,
            well: std::env::args().nth(1).as_deref() == Some("--well"),
        });
        task::spawn(write_journal(orders));
        task::spawn(sweep_expired(shop.clone()));
        task::spawn(refresh_prices(shop.clone()));

        let listener = TcpListener::bind("127.0.0.1:0").await?;
        println!("listening on {}", listener.local_addr()?);
        loop {
            let (stream, _) = listener.accept().await?;
            task::spawn(serve_connection(stream, shop.clone()));
        }
    })
}
