//! The message families: which types they are in each library, and the fields of each message, once for all libraries.
//!
//! [`messages!`] calls a macro with every message: package, name, the names of buffa's two views, and the fields. A library's
//! file turns that into its `Fold`s (see `peers/`). [`Family`] names the types of a family's outermost message.

use base::prng::Prng;

use crate::fold::Fold;
use crate::generate;
use crate::peers::{buffa, prost, quick};

/// Calls `$then! { package Message View LazyView (field …) }` for every message.
macro_rules! messages {
    ($then:ident) => {
        $then! { log LogRecord LogRecordView LogRecordLazyView (
            timestamp_ns received_us severity service host region process_id thread_id trace_id span_id method path
            transport status request_bytes response_bytes clock_skew_us duration_ms load sampled cache_hit user_agent
            client_address attempt text
        ) }
        $then! { nested Label LabelView LabelLazyView (key value weight) }
        $then! { nested Fleet FleetView FleetLazyView (id name owner rank labels inner) }
        $then! { nested Region RegionView RegionLazyView (id name owner rank labels inner) }
        $then! { nested Zone ZoneView ZoneLazyView (id name owner rank labels inner) }
        $then! { nested Cluster ClusterView ClusterLazyView (id name owner rank labels inner) }
        $then! { nested Rack RackView RackLazyView (id name owner rank labels inner) }
        $then! { nested Machine MachineView MachineLazyView (id name owner rank labels inner) }
        $then! { nested Process ProcessView ProcessLazyView (id name owner rank labels inner) }
        $then! { nested Service ServiceView ServiceLazyView (id name owner rank labels inner) }
        $then! { nested Endpoint EndpointView EndpointLazyView (id name owner rank labels inner) }
        $then! { nested Call CallView CallLazyView (id name owner rank labels) }
        $then! { wide Batch BatchView BatchLazyView (
            id source counts positions samples deltas drifts weights hashes flags names stamps_us body parts
        ) }
        $then! { micro UniqueIdRequest UniqueIdRequestView UniqueIdRequestLazyView (
            request_id trace kind machine caller
        ) }
        $then! { micro LoginRequest LoginRequestView LoginRequestLazyView (
            request_id trace username password_hash device remember
        ) }
        $then! { micro ShortenRequest ShortenRequestView ShortenRequestLazyView (request_id trace urls lifetime_s) }
        $then! { micro FollowRequest FollowRequestView FollowRequestLazyView (
            request_id trace user_id followee_id user_name followee_name at_us
        ) }
        $then! { micro Mention MentionView MentionLazyView (user_id name) }
        $then! { micro ComposePostRequest ComposePostRequestView ComposePostRequestLazyView (
            request_id trace user_id username text media_ids media_types kind mentions
        ) }
    };
}
pub(crate) use messages;

/// One family: a message type as each peer knows it, and where its values come from.
pub trait Family: 'static {
    /// What the tables call it.
    const NAME: &'static str;
    /// Its message's full name in the schema.
    const MESSAGE: &'static str;
    type Prost: ::prost::Message + Default + Fold;
    type ProstBytes: ::prost::Message + Default + Fold;
    type Buffa: ::buffa::Message + Fold;
    type BuffaView<'a>: ::buffa::MessageView<'a> + ::buffa::ViewEncode<'a> + Fold;
    type BuffaLazyView<'a>: ::buffa::LazyMessageView<'a> + Fold;
    type Quick<'a>: ::quick_protobuf::MessageRead<'a> + ::quick_protobuf::MessageWrite + Fold;

    /// A realistic message.
    fn generate(prng: &mut Prng) -> Self::Prost;
}

macro_rules! families {
    ($($name:literal $family:ident $package:ident $message:ident $view:ident $lazy:ident $generate:ident;)*) => {
        $(
            #[doc = concat!("The family `", $name, "`.")]
            pub struct $family;

            impl Family for $family {
                const NAME: &'static str = $name;
                const MESSAGE: &'static str = concat!(stringify!($package), ".", stringify!($message));
                type Prost = prost::owned::$package::$message;
                type ProstBytes = prost::shared::$package::$message;
                type Buffa = buffa::generated::$package::$message;
                type BuffaView<'a> = buffa::generated::$package::$view<'a>;
                type BuffaLazyView<'a> = buffa::generated::$package::$lazy<'a>;
                type Quick<'a> = quick::generated::$package::$message<'a>;

                fn generate(prng: &mut Prng) -> Self::Prost {
                    generate::$generate(prng)
                }
            }
        )*

        /// Every family's name and contest, in the order of the tables.
        pub const ALL: &[(&str, fn(u64) -> crate::contest::Contest)] =
            &[$(($name, crate::contest::Contest::of::<$family>)),*];
    };
}
families! {
    "log" Log log LogRecord LogRecordView LogRecordLazyView log_record;
    "nested" Nested nested Fleet FleetView FleetLazyView fleet;
    "wide" Wide wide Batch BatchView BatchLazyView batch;
    "micro-unique-id" UniqueId micro UniqueIdRequest UniqueIdRequestView UniqueIdRequestLazyView unique_id;
    "micro-login" Login micro LoginRequest LoginRequestView LoginRequestLazyView login;
    "micro-shorten" Shorten micro ShortenRequest ShortenRequestView ShortenRequestLazyView shorten;
    "micro-follow" Follow micro FollowRequest FollowRequestView FollowRequestLazyView follow;
    "micro-compose" Compose micro ComposePostRequest ComposePostRequestView ComposePostRequestLazyView compose_post;
}
