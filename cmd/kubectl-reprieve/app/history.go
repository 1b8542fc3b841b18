package app

import (
	"context"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"
)

// historyAnswer is the answer of history.
type historyAnswer struct {
	typed
	Preemptions []happening `json:"preemptions"`
}

func (a *asking) historyCommand() *cobra.Command {
	all, since := false, time.Duration(0)
	cmd := &cobra.Command{
		Use:   "history",
		Short: "Show the preemptions that the cluster still tells of, newest first",
		Long: `Show the preemptions that the cluster still tells of, newest first: by the statuses of PodGroups and pods, which
stay as long as those do, and by events, which an API server keeps for an hour unless it is set up otherwise.`,
		Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			namespace, err := a.namespace()
			if err != nil {
				return err
			}
			if all {
				namespace = ""
			}
			shown := newProgress(a.streams.ErrOut, a.clock)
			answer, err := a.history(cmd.Context(), shown, namespace, since)
			shown.end()
			if err != nil {
				return err
			}
			return a.write(answer, func(to io.Writer, wide bool) error { return showHistory(to, answer, wide) })
		},
	}
	cmd.Flags().BoolVarP(&all, "all-namespaces", "A", false, "Of victims in all namespaces.")
	cmd.Flags().DurationVar(&since, "since", 0, "Only what has begun in this time, such as 30m.")
	return cmd
}

func (a *asking) history(ctx context.Context, shown *progress, namespace string, since time.Duration) (*historyAnswer, error) {
	objects, err := a.read(ctx, shown)
	if err != nil {
		return nil, err
	}
	found, err := a.preemptions(ctx, objects, namespace)
	if err != nil {
		return nil, err
	}
	if since > 0 {
		found = slices.DeleteFunc(found, func(h happening) bool { return h.Time.Before(objects.Taken.Add(-since)) })
	}
	return &historyAnswer{typed: typed{APIVersion: answerVersion, Kind: "History", Taken: objects.Taken.UTC()}, Preemptions: found}, nil
}

func showHistory(to io.Writer, answer *historyAnswer, wide bool) error {
	if len(answer.Preemptions) == 0 {
		_, err := io.WriteString(to, "Nothing tells of any preemption.\n")
		return err
	}
	rows := [][]string{{"TIME", "VICTIM", "PREEMPTOR", "RULE"}}
	if wide {
		rows[0] = append(rows[0], "MESSAGE")
	}
	for i := range answer.Preemptions {
		h := &answer.Preemptions[i]
		row := []string{h.Time.Format(time.RFC3339), h.Victim, orDash(h.Preemptor), orDash(h.Rule)}
		if wide {
			row = append(row, orDash(h.Message))
		}
		rows = append(rows, row)
	}
	return table(to, rows)
}

func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}
