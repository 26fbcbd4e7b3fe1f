// One direction of the star: each worker's own link, in series with one that all workers share. Pure.
//
// Workers come in groups of equals, which behave as one. A worker's transfers go one after the other; transfers of
// different workers share evenly what the shared link carries, as far as their own links let them (max-min fair).
#pragma once

#include <cstddef>
#include <deque>
#include <vector>

namespace diloco {

class SharedLink {
 public:
  struct Group {
    int workers;
    double rate;  // Of each worker's own link, bytes a second.
  };
  SharedLink(std::vector<Group> groups, double shared_rate);

  // Adds a transfer to the queue of each worker of `group`.
  void Enqueue(size_t group, int fragment, double bytes);

  // Seconds until a transfer ends; infinity when there is none.
  double UntilNext() const;

  struct Done {
    size_t group;
    int fragment;
  };
  // Lets time pass, `seconds` <= UntilNext(). Returns the transfers that end then.
  std::vector<Done> Advance(double seconds);

 private:
  struct Transfer {
    int fragment;
    double bytes_left;
  };
  void Share();

  const std::vector<Group> groups_;
  std::vector<size_t> by_rate_;  // Groups, the slowest first.
  const double shared_rate_;
  std::vector<std::deque<Transfer>> queues_;  // By group.
  std::vector<double> rates_;                 // By group, of the transfer at the head of its queue.
};

}  // namespace diloco
