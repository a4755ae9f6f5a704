//! The stubs: `deferred` are the methods of services that ask others before they answer.

use fabric::build::{BuildError, Config};

fn main() -> Result<(), BuildError> {
    let waiting = [
        "/social.Site/ComposePost",
        "/social.Site/ReadHomeTimeline",
        "/social.Site/ReadUserTimeline",
        "/social.Compose/ComposePost",
        "/social.Text/ComposeText",
        "/social.HomeTimeline/Write",
        "/social.HomeTimeline/Read",
        "/social.UserTimeline/Read",
    ];
    let social =
        waiting.iter().fold(Config::new().include("proto"), |config, method| config.deferred(*method));
    social.compile(&["proto/social.proto"])?;
    let waiting = [
        "/media.Site/Compose",
        "/media.Site/ReadPage",
        "/media.UniqueId/Upload",
        "/media.MovieId/Upload",
        "/media.Rating/Upload",
        "/media.Text/Upload",
        "/media.User/Upload",
        "/media.ComposeReview/Upload",
        "/media.MovieReview/Read",
        "/media.Page/Read",
    ];
    let media =
        waiting.iter().fold(Config::new().include("proto"), |config, method| config.deferred(*method));
    media.compile(&["proto/media.proto"])?;
    Ok(())
}
