package app

import (
	"context"
	"fmt"
	"io"
	"strconv"

	"github.com/reprieve-dev/reprieve/internal/whatif"
)

// mostAsked is the maximum number of waiting workloads that get a decision for one answer.
const mostAsked = 50

// threatsAnswer is the answer of protected --from: the waiting workloads that would evict some
// work.
type threatsAnswer struct {
	typed
	Subject string `json:"subject"`
	// Threats lists the workloads whose next decision would evict the subject, in the order of the
	// scheduler's queue.
	Threats []threat `json:"threats"`
	// Asked is the number of waiting workloads that got a decision.
	Asked int `json:"asked"`
	// Unasked is the number of waiting workloads that got no decision, because of mostAsked.
	Unasked int `json:"unasked,omitempty"`
}

// threat is a workload whose next decision would evict the subject.
type threat struct {
	Work     string `json:"work"`
	Priority int32  `json:"priority"`
	Queue    string `json:"queue,omitempty"`
	// Victim is the unit of the subject that the workload would evict.
	Victim string `json:"victim"`
	// Rule is the rule that permits the eviction.
	Rule string `json:"rule"`
}

// threats makes a decision for each waiting workload, as if each were the next one. It returns the
// workloads whose decision evicts the subject.
func (a *asking) threats(ctx context.Context, shown *progress, about *subject) (*threatsAnswer, error) {
	asked, err := a.gather(ctx, shown)
	if err != nil {
		return nil, err
	}
	if err := about.findRunning(asked); err != nil {
		return nil, err
	}
	cluster, err := whatif.New(ctx, asked.objects, asked.cfg)
	if err != nil {
		return nil, err
	}
	defer cluster.Close()
	waiting, err := cluster.Waiting()
	if err != nil {
		return nil, err
	}
	answer := &threatsAnswer{typed: typed{APIVersion: answerVersion, Kind: "Threats", Taken: asked.objects.Taken.UTC()}, Subject: about.name(), Threats: []threat{}}
	of := make(map[string]whatif.Workload)
	for _, w := range cluster.Workloads() {
		for _, pod := range w.Pods {
			of[string(pod.UID)] = w
		}
	}
	for _, pod := range waiting {
		if answer.Asked == mostAsked {
			answer.Unasked++
			continue
		}
		shown.say("deciding %d of %d", answer.Asked+1, min(len(waiting), mostAsked))
		answer.Asked++
		step, err := cluster.Decide(ctx, podKey(pod))
		if err != nil {
			return nil, err
		}
		for i := range step.Victims {
			v := &step.Victims[i]
			if name := unitName(v.Namespace, v.Name, v.Group); about.isVictim(name, v.Pods) {
				w := of[string(pod.UID)]
				answer.Threats = append(answer.Threats, threat{Work: unitName(w.Namespace, w.Name, w.Gang), Priority: w.Priority, Queue: w.Queue, Victim: name, Rule: string(v.Rule)})
			}
		}
	}
	return answer, nil
}

func showThreats(to io.Writer, answer *threatsAnswer) error {
	if len(answer.Threats) == 0 {
		fmt.Fprintf(to, "%s: nothing that waits would stop it by its next decision (%s asked).\n", answer.Subject, plural(answer.Asked, "workload"))
	} else {
		rows := [][]string{{"PREEMPTOR", "PRIORITY", "QUEUE", "TAKES", "RULE"}}
		for _, t := range answer.Threats {
			rows = append(rows, []string{t.Work, strconv.Itoa(int(t.Priority)), orDash(t.Queue), t.Victim, t.Rule})
		}
		if err := table(to, rows); err != nil {
			return err
		}
	}
	if answer.Unasked > 0 {
		fmt.Fprintf(to, "%d more wait, which were not decided on.\n", answer.Unasked)
	}
	return nil
}
