//! A service on actix-web.
mod load;
mod work;

use actix_web::{web, App, HttpServer};
use work::Shop;

async fn blocks() -> String {
    let _request = load::Request::to("blocks");
    work::block()
}

async fn item(shop: web::Data<Shop>) -> String {
    let _request = load::Request::to("item");
    work::take_item(&shop.stock).await
}

async fn order(shop: web::Data<Shop>) -> String {
    let _request = load::Request::to("order");
    shop.orders.send(1).await.expect("the mailer");
    "ordered".into()
}

async fn file() -> String {
    let _request = load::Request::to("file");
    work::read_file().await
}

async fn pool(shop: web::Data<Shop>) -> String {
    let _request = load::Request::to("pool");
    work::query(&shop.pool).await
}

async fn hello() -> &'static str {
    let _request = load::Request::to("hello");
    "hello"
}

use actix_web::body::MessageBody;
use actix_web::dev::{ServiceRequest, ServiceResponse};
use actix_web::middleware::{from_fn, Next};

/// Around the handlers of some routes.
async fn logged<B: MessageBody>(request: ServiceRequest, next: Next<B>) -> Result<ServiceResponse<B>, actix_web::Error> {
    next.call(request).await
}

fn main() {
    actix_web::rt::System::new().block_on(async {
        let (shop, mailer) = Shop::open();
        actix_web::rt::spawn(mailer);
        let data = web::Data::new(shop);
        let server = HttpServer::new(move || {
            App::new()
                .app_data(data.clone())
                .route("/blocks", web::get().to(blocks))
                .route("/order", web::get().to(order))
                .route("/pool", web::get().to(pool))
                .route("/hello", web::get().to(hello))
                .service(
                    web::scope("")
                        .wrap(from_fn(logged))
                        .route("/item", web::get().to(item))
                        .route("/file", web::get().to(file)),
                )
        })
        .workers(2)
        .disable_signals()
        .bind("127.0.0.1:0")
        .expect("bind");
        let address = server.addrs()[0];
        let server = server.run();
        let handle = server.handle();
        actix_web::rt::spawn(server);
        let (sender, over) = tokio::sync::oneshot::channel();
        std::thread::spawn(move || {
            load::ready();
            load::run(address);
            load::done("actix");
            let _ = sender.send(());
        });
        let _ = over.await;
        handle.stop(false).await;
    });
}
