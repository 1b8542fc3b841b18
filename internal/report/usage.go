package report

import (
	"maps"
	"slices"
	"time"
)

// Sample is how queues stood at one moment.
type Sample struct {
	At time.Time
	// Queues are those that there were, by name.
	Queues map[string]Standing
}

// Standing is what one queue used, and what it could count on, by resource: cores, bytes and counts.
type Standing struct {
	Used, Quota, FairShare map[string]float64
}

// mostSamples bounds how many moments a page has: more could not be told apart.
const mostSamples = 400

// Usage is what queues used of one resource over time.
type Usage struct {
	Resource string `json:"resource"`
	// At are the moments; what a queue stood at holds until the next of them.
	At []int64 `json:"at"`
	// Queues are in the order of the report's.
	Queues []QueueUsage `json:"queues"`
}

// QueueUsage is what one queue had at each moment: -1 where it was not there.
type QueueUsage struct {
	Used  []float64 `json:"used"`
	Quota []float64 `json:"quota"`
	Share []float64 `json:"share"`
}

// usage is that of each resource that queues have a quota of, or use, GPUs first.
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
				bounded[resource] = bounded[resource] || v > 0
			}
		}
	}
	// Where queues have quotas, what they have none of is of no interest.
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

// byInterest is the order of resources: GPUs and the like, then CPUs, then the others.
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

// thinned are samples in the order of time; of very many, the last of each stretch of time.
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
