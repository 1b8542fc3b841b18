package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/reprieve-dev/reprieve/internal/inventory"
	"github.com/reprieve-dev/reprieve/internal/report"
)

// historyAnswer is the answer of the subcommand history.
type historyAnswer struct {
	typed
	Preemptions []happening `json:"preemptions"`
	// QueueUnknown counts preemptions that the answer leaves out because the victim's queue is not
	// known. It is 0 if the user asks about no particular queue.
	QueueUnknown int `json:"queueUnknown,omitempty"`
}

func (a *asking) historyCommand() *cobra.Command {
	all, wanted := false, historyFilter{}
	cmd := &cobra.Command{
		Use:   "history",
		Short: "Show the preemptions that the cluster still tells of, newest first",
		Long: `Show the preemptions that the cluster still tells of, newest first: by the statuses of PodGroups and pods, which
stay as long as those do, and by events, which an API server keeps for an hour unless it is set up otherwise. With --log or
--scheduler, those of the scheduler's record are among them. The record counts before a status, and a status before an event: users
may write events, so the answer says where it is "according to an event" alone. With --queue, which queue a victim was in is known from the record, or as
the scheduler would have it now, as long as the victim is there; others are left out and counted.`,
		Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			namespace, err := a.namespace()
			if err != nil {
				return err
			}
			if wanted.namespace = namespace; all {
				wanted.namespace = ""
			}
			if err := wanted.record.check(); err != nil {
				return err
			}
			shown := newProgress(a.streams.ErrOut, a.clock)
			answer, err := a.history(cmd.Context(), shown, &wanted)
			shown.end()
			if err != nil {
				return err
			}
			return a.write(answer, func(to io.Writer, wide bool) error { return showHistory(to, answer, wide) })
		},
	}
	cmd.Flags().BoolVarP(&all, "all-namespaces", "A", false, "Show victims in all namespaces.")
	cmd.Flags().DurationVar(&wanted.since, "since", 0, "Show only preemptions that began within this time, such as 30m.")
	cmd.Flags().StringVar(&wanted.queue, "queue", "", "Show only victims in this leaf Queue.")
	cmd.Flags().StringVar(&wanted.preemptor, "preemptor", "", "Show only preemptions by this work: POD or KIND/NAME, in any namespace.")
	wanted.record.addFlags(cmd.Flags())
	return cmd
}

// historyFilter selects preemptions. Each zero field selects all.
type historyFilter struct {
	// namespace is the namespace of the victims, and queue is their leaf queue.
	namespace, queue string
	// preemptor names the preemptor, as POD or KIND/NAME.
	preemptor string
	// since is the maximum age of the preemptions.
	since  time.Duration
	record recordSource
}

func (a *asking) history(ctx context.Context, shown *progress, wanted *historyFilter) (*historyAnswer, error) {
	var by *subject
	if wanted.preemptor != "" {
		var err error
		if by, err = parseSubject(wanted.preemptor, ""); err != nil {
			return nil, err
		}
	}
	records, err := a.records(ctx, &wanted.record)
	if err != nil {
		return nil, err
	}
	objects, parties, err := a.readParties(ctx, shown, wanted.namespace, wanted.queue != "", by)
	if err != nil {
		return nil, err
	}
	found, err := a.preemptions(ctx, objects, wanted.namespace, records)
	if err != nil {
		return nil, err
	}
	took, err := by.namesIn(objects)
	if err != nil {
		return nil, err
	}
	answer := &historyAnswer{typed: typed{APIVersion: answerVersion, Kind: "History", Taken: objects.Taken.UTC()}, Preemptions: []happening{}}
	for i := range found {
		h := &found[i]
		if wanted.since > 0 && h.Time.Before(objects.Taken.Add(-wanted.since)) || !took(h.Preemptor) {
			continue
		}
		queue, known := h.queueAmong(parties)
		switch {
		case wanted.queue == "", known && queue == wanted.queue:
			answer.Preemptions = append(answer.Preemptions, *h)
		case !known:
			answer.QueueUnknown++
		}
	}
	return answer, nil
}

// readParties reads the objects. If queues is true, it also returns the workloads with their
// queues, by the names that happenings have for them. It reads the scheduler's configuration only
// if queues is true, or if the subject by needs a grouping rule to find its pods. In all other
// cases, a caller who may not list all objects gets the objects of the namespace, unless namespace
// is "".
func (a *asking) readParties(ctx context.Context, shown *progress, namespace string, queues bool, by *subject) (*inventory.Inventory, map[string]report.Party, error) {
	if !queues && (by == nil || by.rule == nil) {
		objects, err := a.read(ctx, shown)
		var forbidden *inventory.ForbiddenError
		if !errors.As(err, &forbidden) || namespace == "" {
			return objects, nil, err
		}
		asked, err := a.gatherWhatMayBe(ctx, shown, namespace)
		if err != nil {
			return nil, nil, err
		}
		a.noteOnce(shown, "you may not list %s: the answer uses only objects of namespace %s", strings.Join(asked.unseen, ", "), namespace)
		return asked.objects, nil, nil
	}
	asked, err := a.gather(ctx, shown)
	if err != nil {
		return nil, nil, err
	}
	if !queues {
		return asked.objects, nil, nil
	}
	parties, err := partiesOf(ctx, asked)
	return asked.objects, parties, err
}

func showHistory(to io.Writer, answer *historyAnswer, wide bool) error {
	if err := showPreemptions(to, answer, wide); err != nil || answer.QueueUnknown == 0 {
		return err
	}
	_, err := fmt.Fprintf(to, "Left out: %s whose victim's queue is no longer known.\n", plural(answer.QueueUnknown, "preemption"))
	return err
}

func showPreemptions(to io.Writer, answer *historyAnswer, wide bool) error {
	if len(answer.Preemptions) == 0 {
		_, err := io.WriteString(to, "Nothing tells of any preemption.\n")
		return err
	}
	rows := [][]string{{"TIME", "VICTIM", "PREEMPTOR", "RULE", "SOURCE"}}
	if wide {
		rows[0] = append(rows[0], "DEVICE-HOURS LOST", "MESSAGE")
	}
	for i := range answer.Preemptions {
		h := &answer.Preemptions[i]
		source := h.Source
		if source == sourceEvent {
			source = accordingToEvent
		}
		row := []string{h.Time.Format(time.RFC3339), h.Victim, orDash(h.Preemptor), orDash(h.Rule), source}
		if wide {
			lost := ""
			if h.LostDeviceHours != nil {
				lost = hours(*h.LostDeviceHours)
			}
			row = append(row, orDash(lost), orDash(h.Message))
		}
		rows = append(rows, row)
	}
	return table(to, rows)
}

// isNamed reports whether a name in a happening is the name of the subject or of a pod of the
// subject's Job. It ignores the namespace.
func (s *subject) isNamed(name string) bool {
	kind, rest, _ := strings.Cut(name, " ")
	_, own, _ := strings.Cut(rest, "/")
	if s.kind == kindJob {
		return kind == "pod" && isPodOf(s.key.Name, own)
	}
	return strings.EqualFold(kind, s.kind) && own == s.key.Name
}

// namesIn returns a function that reports whether a name in a happening belongs to the subject. A
// name belongs to the subject if it names the subject, one of its pods or one of its PodGroups, in
// any namespace. Without a subject, the function returns true for every name.
func (s *subject) namesIn(objects *inventory.Inventory) (func(name string) bool, error) {
	if s == nil {
		return func(string) bool { return true }, nil
	}
	in, named, names := *s, s.isNamed, sets.New[string]()
	if s.rule != nil {
		f, err := familyOf(objects, s.rule, s.key)
		if err != nil {
			return nil, err
		}
		if err := f.nameParts(objects, names); err != nil {
			return nil, err
		}
		in.family, named = f, f.hadPod
	}
	groups, err := ownGroups(objects)
	for _, pg := range groups {
		if in.owns(pg) {
			names.Insert(groupName(keyOf(pg)))
		}
	}
	return func(name string) bool { return named(name) || names.Has(name) }, err
}

func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}
