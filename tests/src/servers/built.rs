//! The files that `npm run build` made of `api/web`, inflated.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use flate2::read::GzDecoder;

use crate::servers::program;

/// The folder of GraphiQL.
pub const GRAPHIQL: &str = "graphiql";

/// The folder of the page at `/`.
pub const PAGE: &str = "page";

/// The files of both, by their addresses; without the page at `/`, to which the server adds.
pub fn assets() -> BTreeMap<String, String> {
    let mut assets = BTreeMap::from([("/graphiql".to_owned(), index(GRAPHIQL))]);
    for folder in [GRAPHIQL, PAGE] {
        for file in compressed_assets(folder) {
            let name = file.file_name().unwrap().to_str().unwrap();
            let name = name.strip_suffix(".gz").unwrap();
            assets.insert(format!("/{folder}/assets/{name}"), inflated(&file));
        }
    }
    assets
}

/// The page of a folder.
pub fn index(folder: &str) -> String {
    inflated(&dist(folder).join("index.html.gz"))
}

/// The compressed assets of a folder.
pub fn compressed_assets(folder: &str) -> Vec<PathBuf> {
    let files = fs::read_dir(dist(folder).join("assets"))
        .expect("the pages are not built: `make web` builds them, or says what it needs");
    files.map(|file| file.unwrap().path()).collect()
}

fn dist(folder: &str) -> PathBuf {
    program::root().join("api/web/dist").join(folder)
}

fn inflated(path: &Path) -> String {
    let mut bytes = Vec::new();
    GzDecoder::new(fs::File::open(path).unwrap()).read_to_end(&mut bytes).unwrap();
    String::from_utf8_lossy(&bytes).into_owned()
}
