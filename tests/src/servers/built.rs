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

/// The folder of the office at `/admin`.
pub const OFFICE: &str = "office";

/// The folders, and the addresses of their pages.
const FOLDERS: [(&str, &str); 3] = [(GRAPHIQL, "graphiql"), (OFFICE, "admin"), (PAGE, "page")];

/// All files, by their addresses; without the page at `/`, to which the server adds.
pub fn assets() -> BTreeMap<String, String> {
    let pages = [("/graphiql", GRAPHIQL), ("/admin", OFFICE)];
    let mut assets: BTreeMap<_, _> =
        pages.into_iter().map(|(address, folder)| (address.to_owned(), index(folder))).collect();
    for (folder, address) in FOLDERS {
        for file in compressed_assets(folder) {
            let name = file.file_name().unwrap().to_str().unwrap();
            let name = name.strip_suffix(".gz").unwrap();
            assets.insert(format!("/{address}/assets/{name}"), inflated(&file));
        }
    }
    assets
}

/// The page of a folder.
pub fn index(folder: &str) -> String {
    let name = if folder == OFFICE { "office.html.gz" } else { "index.html.gz" };
    inflated(&dist(folder).join(name))
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
