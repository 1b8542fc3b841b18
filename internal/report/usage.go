package report

import (
	"maps"
	"slices"
	"time"
)

// Sample is the usage of all queues at one moment.
type Sample struct {
	At time.Time
	// Queues maps a name to the state of the queue, for the queues that existed at that moment.
	Queues map[string]QueueState
}

// QueueState is the usage, quota and fair share of one queue, each by resource. The units are cores
// for CPU, bytes for memory, and counts for devices.
type QueueState struct {
	Used, Quota, FairShare map[string]float64
}

// mostSamples is the maximum number of moments in a report. More moments would not be visible in a
// plot.
const mostSamples = 400

// Usage is the usage of one resource by all queues over time.
type Usage struct {
	Resource string `json:"resource"`
	// At has the moments, in milliseconds since 1970. The values of a moment apply until the next
	// moment.
	At []int64 `json:"at"`
	// Queues has the values of each queue, in the order of the report's queues.
	Queues []QueueUsage `json:"queues"`
}

// QueueUsage has the values of one queue, one for each moment. A value is -1 if the queue did not
// exist at that moment.
type QueueUsage struct {
	Used  []float64 `json:"used"`
	Quota []float64 `json:"quota"`
	Share []float64 `json:"share"`
}

// usage returns the usage of each resource that has a quota above 0 in any queue, GPUs first. If
// there is no such quota, it returns each resource that is in use.
func (b *builder) usage(samples []Sample) []Usage {
	samples = thinned(samples)
	resources := make(map[string]bool)
	bounded := make(map[string]bool)
	for i := range samples {
		for _, s := range samples[i].Queues {
			for resource, v := range s.Used {
				resources[resource] = resources[resource] || v > 0
			}
			for resource, v := range s.Quota {
				if v > 0 {
					bounded[resource] = true
				}
			}
		}
	}
	// If there are quotas, only the resources with a quota are of interest.
	if len(bounded) > 0 {
		resources = bounded
	}
	out := []Usage{}
	for _, resource := range slices.SortedFunc(maps.Keys(resources), byInterest) {
		if resources[resource] {
			out = append(out, b.usageOf(resource, samples))
		}
	}
	return out
}

func (b *builder) usageOf(resource string, samples []Sample) Usage {
	u := Usage{Resource: resource, At: make([]int64, len(samples)), Queues: make([]QueueUsage, len(b.report.Queues))}
	for i := range samples {
		u.At[i] = millis(samples[i].At)
	}
	for q := range b.report.Queues {
		of := &u.Queues[q]
		for i := range samples {
			used, quota, share := -1.0, -1.0, -1.0
			if s, ok := samples[i].Queues[b.report.Queues[q].Name]; ok {
				used, quota, share = s.Used[resource], s.Quota[resource], s.FairShare[resource]
			}
			of.Used, of.Quota, of.Share = append(of.Used, used), append(of.Quota, quota), append(of.Share, share)
		}
	}
	return u
}

// byInterest orders resources: GPUs and other extended resources first, then CPU, then memory,
// ephemeral storage and pods.
func byInterest(a, b string) int {
	rank := func(resource string) int {
		switch resource {
		case "cpu":
			return 1
		case "memory", "ephemeral-storage", "pods":
			return 2
		default:
			return 0
		}
	}
	if rank(a) != rank(b) {
		return rank(a) - rank(b)
	}
	if a < b {
		return -1
	}
	return 1
}

// thinned returns the samples sorted by time. If there are more than mostSamples, it divides the
// time into that number of intervals and keeps the last sample of each.
func thinned(samples []Sample) []Sample {
	samples = slices.Clone(samples)
	slices.SortStableFunc(samples, func(a, b Sample) int { return a.At.Compare(b.At) })
	if len(samples) <= mostSamples {
		return samples
	}
	first, last := samples[0].At, samples[len(samples)-1].At
	stretch := last.Sub(first)/mostSamples + 1
	out := samples[:0:0]
	for i := range samples {
		n := samples[i].At.Sub(first) / stretch
		if i+1 < len(samples) && samples[i+1].At.Sub(first)/stretch == n {
			continue
		}
		out = append(out, samples[i])
	}
	return out
}
