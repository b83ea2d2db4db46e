//! A service on axum.
mod load;
mod work;

use axum::extract::{Request, State};
use axum::middleware::{self, Next};
use axum::response::Response;
use axum::routing::get;
use axum::Router;
use work::Shop;

async fn blocks() -> String {
    let _request = load::Request::to("blocks");
    work::block()
}

async fn item(State(shop): State<Shop>) -> String {
    let _request = load::Request::to("item");
    work::take_item(&shop.stock).await
}

async fn order(State(shop): State<Shop>) -> String {
    let _request = load::Request::to("order");
    shop.orders.send(1).await.expect("the mailer");
    "ordered".into()
}

async fn file() -> String {
    let _request = load::Request::to("file");
    work::read_file().await
}

async fn pool(State(shop): State<Shop>) -> String {
    let _request = load::Request::to("pool");
    work::query(&shop.pool).await
}

/// Its method is a handler.
struct Pages;

impl Pages {
    async fn hello() -> &'static str {
        let _request = load::Request::to("hello");
        "hello"
    }
}

/// Around the handlers of some routes.
async fn logged(request: Request, next: Next) -> Response {
    next.run(request).await
}

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    let (shop, mailer) = Shop::open();
    let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).expect("bind");
    let address = listener.local_addr().expect("an address");
    let logs = Router::new()
        .route("/item", get(item))
        .route("/file", get(file))
        .layer(middleware::from_fn(logged));
    let app = Router::new()
        .route("/blocks", get(blocks))
        .route("/order", get(order))
        .route("/pool", get(pool))
        .route("/hello", get(Pages::hello))
        .merge(logs)
        .with_state(shop);
    runtime.spawn(mailer);
    runtime.spawn(async { axum::serve(listener, app).await });
    load::ready();
    load::run(address);
    load::done("axum");
}
