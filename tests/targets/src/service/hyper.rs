//! A service on hyper alone: one function for all routes, given to `service_fn`.
mod load;
mod work;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::{Request, Response};
use std::convert::Infallible;
use work::Shop;

async fn order(shop: &Shop) -> String {
    let _request = load::Request::to("order");
    shop.orders.send(1).await.expect("the mailer");
    "ordered".into()
}

async fn item(shop: &Shop) -> String {
    let _request = load::Request::to("item");
    work::take_item(&shop.stock).await
}

async fn file() -> String {
    let _request = load::Request::to("file");
    work::read_file().await
}

async fn pool(shop: &Shop) -> String {
    let _request = load::Request::to("pool");
    work::query(&shop.pool).await
}

async fn route(shop: Shop, request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let text = match request.uri().path() {
        "/blocks" => {
            let _request = load::Request::to("blocks");
            work::block()
        }
        "/item" => item(&shop).await,
        "/order" => order(&shop).await,
        "/file" => file().await,
        "/pool" => pool(&shop).await,
        _ => {
            let _request = load::Request::to("hello");
            "hello".into()
        }
    };
    Ok(Response::new(Full::from(text)))
}

async fn serve(listener: tokio::net::TcpListener, shop: Shop) {
    loop {
        let (stream, _) = listener.accept().await.expect("accept");
        let shop = shop.clone();
        let io = hyper_util::rt::TokioIo::new(stream);
        let handler = hyper::service::service_fn(move |request| route(shop.clone(), request));
        tokio::spawn(async move {
            let _ = hyper::server::conn::http1::Builder::new().serve_connection(io, handler).await;
        });
    }
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
    runtime.spawn(mailer);
    runtime.spawn(serve(listener, shop));
    load::ready();
    load::run(address);
    load::done("hyper");
}
