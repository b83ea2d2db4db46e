//! A service on tonic: one method for each route, of a trait that is generated. Its clients are tonic's, each
//! on a runtime of its own.
mod load;
mod work;

use std::net::SocketAddr;
use tonic::codegen::{http, BoxFuture};
use tonic::{Code, Request, Response, Status};
use work::Shop;

mod shop {
    include!(concat!(env!("OUT_DIR"), "/shop.rs"));
}

#[derive(Clone, PartialEq, prost::Message)]
struct Text {
    #[prost(string, tag = "1")]
    text: String,
}

type Answer = Result<Response<Text>, Status>;

fn answer(text: String) -> Answer {
    Ok(Response::new(Text { text }))
}

#[tonic::async_trait]
impl shop::Shop for Shop {
    async fn blocks(&self, _: Request<Text>) -> Answer {
        let _request = load::Request::to("blocks");
        answer(work::block())
    }

    async fn item(&self, _: Request<Text>) -> Answer {
        let _request = load::Request::to("item");
        answer(work::take_item(&self.stock).await)
    }

    async fn order(&self, _: Request<Text>) -> Answer {
        let _request = load::Request::to("order");
        self.orders.send(1).await.map_err(|_| Status::new(Code::Internal, "no mailer"))?;
        answer("ordered".into())
    }

    async fn file(&self, _: Request<Text>) -> Answer {
        let _request = load::Request::to("file");
        answer(work::read_file().await)
    }

    async fn pool(&self, _: Request<Text>) -> Answer {
        let _request = load::Request::to("pool");
        answer(work::query(&self.pool).await)
    }

    async fn hello(&self, _: Request<Text>) -> Answer {
        let _request = load::Request::to("hello");
        answer("hello".into())
    }
}

async fn client(to: SocketAddr) {
    let channel = tonic::transport::Endpoint::from_shared(format!("http://{to}"))
        .expect("an address")
        .connect()
        .await
        .expect("connect");
    let mut grpc = tonic::client::Grpc::new(channel);
    for _ in 0..load::rounds() {
        for route in load::ROUTES {
            grpc.ready().await.expect("ready");
            let path = http::uri::PathAndQuery::from_maybe_shared(format!("/shop.Shop/{route}"));
            let codec: tonic::codec::ProstCodec<Text, Text> = Default::default();
            let request = Request::new(Text { text: String::new() });
            grpc.unary(request, path.expect("a path"), codec).await.expect(route);
        }
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
    runtime.spawn(
        tonic::transport::Server::builder()
            .add_service(shop::ShopServer(std::sync::Arc::new(shop)))
            .serve_with_incoming(tokio_stream::wrappers::TcpListenerStream::new(listener)),
    );
    load::ready();
    let clients: Vec<_> = (0..load::CLIENTS)
        .map(|_| {
            std::thread::spawn(move || {
                let own = tokio::runtime::Builder::new_current_thread().enable_all().build();
                own.expect("a runtime").block_on(client(address));
            })
        })
        .collect();
    for client in clients {
        client.join().expect("client");
    }
    load::done("tonic");
}
