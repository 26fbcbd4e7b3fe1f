# cmake -DOUTPUT=FILE.cc -DFOLDER=DIR "-DFILES=a.html;b.css" -P embed.cmake: files as a C++ source that defines
# WebFiles() of coordinator/page/web_files.h, so that the program needs none at run time.
set(types_html "text/html; charset=utf-8")
set(types_css "text/css; charset=utf-8")
set(types_js "text/javascript; charset=utf-8")
set(types_svg "image/svg+xml")

set(arrays "")
set(table "")
set(index 0)
foreach(file ${FILES})
  get_filename_component(extension ${file} LAST_EXT)
  string(SUBSTRING ${extension} 1 -1 extension)
  file(READ ${FOLDER}/${file} bytes HEX)
  string(REGEX REPLACE "(..)" "'\\\\x\\1'," bytes "${bytes}")
  string(APPEND arrays "constexpr char kFile${index}[] = {${bytes}};\n")
  string(APPEND table
         "    {\"${file}\", \"${types_${extension}}\", std::string_view(kFile${index}, sizeof(kFile${index}))},\n")
  math(EXPR index "${index} + 1")
endforeach()
file(WRITE ${OUTPUT} "#include \"coordinator/page/web_files.h\"

namespace diloco {
namespace {

${arrays}
constexpr WebFile kFiles[] = {
${table}};

}  // namespace

absl::Span<const WebFile> WebFiles() { return kFiles; }

}  // namespace diloco
")
