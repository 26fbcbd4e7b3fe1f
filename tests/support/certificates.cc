#include "tests/support/certificates.h"

#include <openssl/pem.h>

#include <filesystem>

#include "common/base/check.h"
#include "common/tls/certificate.h"
#include "common/tls/openssl.h"

namespace diloco::testing {
namespace {

template <typename Write>
void WritePem(const std::string& path, const Write& write) {
  const openssl::Bio file(BIO_new_file(path.c_str(), "w"));
  DILOCO_CHECK(file != nullptr && write(file.get()) == 1);
}

void AddExtension(X509* certificate, int nid, const std::string& value) {
  X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, nullptr, nid, value.c_str());
  DILOCO_CHECK(extension != nullptr && X509_add_ext(certificate, extension, -1) == 1);
  X509_EXTENSION_free(extension);
}

}  // namespace

TlsFiles WriteCertificate(const std::string& authority_folder, const std::string& folder, const CertificateSpec& spec) {
  const auto authority = ReadCertificateChain(authority_folder + "/ca.crt");
  const auto authority_key = ReadPrivateKey(authority_folder + "/ca.key");
  DILOCO_CHECK(authority.ok() && authority_key.ok());
  const openssl::Key key(EVP_EC_gen("P-256"));
  const openssl::Certificate certificate(X509_new());
  X509_set_version(certificate.get(), 2);
  ASN1_INTEGER_set(X509_get_serialNumber(certificate.get()), 4711);
  ASN1_TIME_set(X509_getm_notBefore(certificate.get()), absl::ToTimeT(absl::Now() + spec.valid_from));
  ASN1_TIME_set(X509_getm_notAfter(certificate.get()), absl::ToTimeT(absl::Now() + spec.valid_until));
  X509_set_issuer_name(certificate.get(), X509_get_subject_name(authority->leaf.get()));
  X509_set_pubkey(certificate.get(), key.get());
  std::string names = "IP:" + spec.host;
  for (const std::string& uri : spec.uris) names += ",URI:" + uri;
  AddExtension(certificate.get(), NID_subject_alt_name, names);
  AddExtension(certificate.get(), NID_ext_key_usage, spec.usage);
  DILOCO_CHECK(X509_sign(certificate.get(), authority_key->get(), EVP_sha256()) > 0);

  std::filesystem::create_directories(folder);
  const TlsFiles files = {
      .certificate = folder + "/tls.crt", .key = folder + "/tls.key", .authority = folder + "/ca.crt"};
  WritePem(files.certificate, [&](BIO* file) { return PEM_write_bio_X509(file, certificate.get()); });
  WritePem(files.key,
           [&](BIO* file) { return PEM_write_bio_PrivateKey(file, key.get(), nullptr, nullptr, 0, nullptr, nullptr); });
  WritePem(files.authority, [&](BIO* file) { return PEM_write_bio_X509(file, authority->leaf.get()); });
  return files;
}

}  // namespace diloco::testing
