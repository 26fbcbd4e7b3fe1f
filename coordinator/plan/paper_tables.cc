#include "coordinator/plan/paper_tables.h"

namespace diloco {
namespace {

constexpr std::string_view kStreamingTable = "arXiv 2501.18512, table 4";
constexpr std::string_view kEagerTable = "arXiv 2502.12996, table 5";

constexpr PaperRow kRows[] = {
    {.table = kEagerTable,
     .method = "data-parallel",
     .setting =
         {.send = PaperSend::kAllEachStep, .inner_steps = 1, .overlap = 0, .bits = 16, .steps = 60, .drain = true},
     .published = {{{86.8, 152.6, 184.2, 222.3, 569.0},
                    {104.8, 222.3, 222.3, 268.3, 471.5},
                    {184.2, 323.8, 390.7, 390.7, 471.5}}}},
    {.table = kStreamingTable,
     .method = "diloco H=100",
     .setting =
         {.send = PaperSend::kAllEachRound, .inner_steps = 100, .overlap = 0, .bits = 16, .steps = 200, .drain = true},
     .published = {{{1.4, 6.2, 13.3, 23.3, 86.8}, {1.7, 7.5, 16.0, 33.9, 104.8}, {3.0, 11.0, 23.3, 49.4, 184.2}}}},
    {.table = kEagerTable,
     .method = "streaming H=100",
     .setting = {.send = PaperSend::kFragmentsAtOffsets,
                 .inner_steps = 100,
                 .overlap = 0,
                 .bits = 16,
                 .steps = 180,
                 .drain = true},
     .published = {{{1.4, 5.2, 9.1, 16.0, 28.1}, {1.7, 5.2, 9.1, 13.3, 19.3}, {2.4, 6.2, 9.1, 11.0, 19.3}}}},
    {.table = kStreamingTable,
     .method = "streaming H=100, 1 inner step",
     .setting = {.send = PaperSend::kFragmentsAtOffsets,
                 .inner_steps = 100,
                 .overlap = 1,
                 .bits = 16,
                 .steps = 180,
                 .drain = true},
     .published = {{{1.4, 4.3, 6.2, 9.1, 11.0}, {1.7, 3.6, 5.2, 6.2, 7.5}, {1.7, 3.6, 4.3, 5.2, 5.2}}}},
    {.table = kEagerTable,
     .method = "streaming H=100, 1 inner step, fp4",
     .setting = {.send = PaperSend::kFragmentsAtOffsets,
                 .inner_steps = 100,
                 .overlap = 1,
                 .bits = 4,
                 .steps = 180,
                 .drain = true},
     .published = {{{0.4, 0.9, 1.7, 2.0, 3.0}, {0.4, 0.9, 1.4, 1.4, 1.7}, {0.5, 0.9, 1.1, 1.1, 1.4}}}},
    {.table = kEagerTable,
     .method = "streaming H=30, 1 inner step, fp4",
     .setting =
         {.send = PaperSend::kFragmentEachStep, .inner_steps = 30, .overlap = 1, .bits = 4, .steps = 60, .drain = true},
     .published = {{{2.4, 3.6, 4.3, 4.3, 4.3}, {1.4, 2.4, 2.4, 3.0, 3.0}, {0.9, 1.7, 2.0, 2.0, 2.0}}}},
    {.table = kEagerTable,
     .method = "eager H=30, 1 outer step, fp4",
     .setting = {.send = PaperSend::kFragmentEachStep,
                 .inner_steps = 30,
                 .overlap = 30,
                 .bits = 4,
                 .steps = 60,
                 .drain = false},
     .published = {{{1.1, 2.0, 2.0, 2.0, 2.4}, {0.7, 1.1, 1.4, 1.4, 1.4}, {0.5, 0.8, 0.9, 0.9, 0.9}}}},
    {.table = kEagerTable,
     .method = "eager H=100, 1 outer step, fp4",
     .setting = {.send = PaperSend::kFragmentsAtOffsets,
                 .inner_steps = 100,
                 .overlap = 100,
                 .bits = 4,
                 .steps = 180,
                 .drain = false},
     .published = {{{0.1, 0.2, 0.2, 0.2, 0.2}, {0.1, 0.2, 0.2, 0.3, 0.3}, {0.2, 0.3, 0.3, 0.3, 0.4}}}},
};

}  // namespace

absl::Span<const PaperRow> PaperRows() { return kRows; }

}  // namespace diloco
