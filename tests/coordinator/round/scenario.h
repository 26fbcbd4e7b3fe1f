// Scenario files: scripts for the round machine, with what came of each step recorded below it.
//
//   file   := block*                     blocks are separated by blank lines
//   block  := ("# " comment | command)* ["----" output*]
//
// A command is a verb and its arguments; NAME is a worker id, with "/N" for an incarnation other than 1.
//
//   run KEY=VALUE...                     a new machine: workers quorum grace lease late rounds open fragments members
//                                        floor cap (grace adapts) timeout
//   seed | join NAME | hear NAME | leave NAME | stopped NAME round=N
//   drain NAME | evict NAME | admit NAME
//   join NAME session=closed             no session of it is open; resumes=N,N: by fragment, where its checkpoint
//   stands contribute NAME round=N [fragment=N] [digest=N] [weight=X] refuse NAME round=N [fragment=N] [digest=N]
//   abstain NAME round=N [fragment=N]
//   merged round=N [fragment=N] | persisted round=N [fragment=N] | end-persisted
//   commit round=N [fragment=N]          merged, then persisted
//   tick DURATION                        time passes
//   paused DURATION                      likewise, in which the coordinator could hear nobody
//   ask NAME round=N [fragment=N]        prints the verdict
//   state                                prints what the machine shows of itself
//   hold | release                       an operator pauses the run, or lets it go on
//   set KEY=VALUE...                     other rules: quorum grace lease late rounds timeout
//   stop                                 the run ends as early as it can
//   restart                              a new machine from what the effects so far made durable
#pragma once

#include <string>
#include <string_view>

namespace diloco {

// Runs the script and returns it with the output below every block written anew.
std::string RunScenario(std::string_view script);

}  // namespace diloco
