// --tls-cert, --tls-key and --tls-ca, the same in every program.
#pragma once

#include "common/tls/tls_files.h"

namespace CLI {
class App;
}  // namespace CLI

namespace diloco {

// Whether all three came is TlsFiles::CheckComplete's to say, after parsing.
void AddTlsFlags(CLI::App& app, TlsFiles* files);

}  // namespace diloco
