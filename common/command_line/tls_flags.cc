#include "common/command_line/tls_flags.h"

#include <CLI/CLI.hpp>

namespace diloco {

void AddTlsFlags(CLI::App& app, TlsFiles* files) {
  app.add_option("--tls-cert", files->certificate,
                 "Own certificate (PEM), whose URI says whose it is; with it, mutual TLS")
      ->type_name("FILE")
      ->envname("DILOCO_TLS_CERT");
  app.add_option("--tls-key", files->key, "Its key (PEM)")->type_name("FILE")->envname("DILOCO_TLS_KEY");
  app.add_option("--tls-ca", files->authority, "Certificates (PEM) of the authority that the other end's must be from")
      ->type_name("FILE")
      ->envname("DILOCO_TLS_CA");
}

}  // namespace diloco
