package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/decisionlog"
	"github.com/reprieve-dev/reprieve/internal/gang"
	"github.com/reprieve-dev/reprieve/internal/inventory"
	"github.com/reprieve-dev/reprieve/internal/manifest"
	"github.com/reprieve-dev/reprieve/internal/report"
	"github.com/reprieve-dev/reprieve/internal/whatif"
)

// keptDecisions is the maximum number of a scheduler's decisions in the memory of the subcommand
// ui. The scheduler itself keeps the latest thousand.
const keptDecisions = 10_000

// keptSamples is the maximum number of samples of the cluster's queues in the memory of the
// subcommand ui. The interval between samples is at least freshFor, so the samples cover six hours
// or more.
const keptSamples = 1440

// decisionsPath is the URL path of a scheduler's latest decisions.
const decisionsPath = "/debug/reprieve/decisions"

// noteCluster is a note on a page whose decisions are read from the cluster's objects. It lists the
// missing data.
const noteCluster = "The decisions come from statuses and events. They are preemptions only, without the lost work. " +
	"Give kubectl reprieve ui the files of a decision log, or --scheduler, for whole decisions."

// schedulerEndpoint is the secure port of a scheduler. url is its address. authority is the file
// with the certificate authority; "" for none.
type schedulerEndpoint struct {
	url, authority string
}

// addFlags adds the flags of the endpoint.
func (e *schedulerEndpoint) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&e.url, "scheduler", "", "URL of the scheduler's secure port, such as https://127.0.0.1:10259 with a port-forward, to read its decisions from.")
	flags.StringVar(&e.authority, "scheduler-certificate-authority", "", "File with the certificate that the scheduler's is signed by; without one, --scheduler has to be on this machine.")
}

// liveSource returns the source of the input of the subcommand ui: decision logs, a scheduler, or
// the objects of the cluster.
func (a *asking) liveSource(files []string, scheduler schedulerEndpoint, plan []string) (inputSource, error) {
	switch {
	case len(plan) > 0 && (len(files) > 0 || scheduler.url != ""):
		return nil, usage(errors.New("--plan is for the map of a cluster: leave the files and --scheduler out"))
	case slices.Contains(files, "-"):
		return nil, usage(errors.New("ui reads files again and again, and standard input only once; use report"))
	case len(files) > 0:
		return func(context.Context) (report.Input, error) { return a.readLogs(files) }, nil
	case scheduler.url != "":
		return a.schedulerSource(scheduler)
	default:
		documents, err := a.planFiles(plan)
		if err != nil {
			return nil, err
		}
		var seen []report.Sample
		return func(ctx context.Context) (report.Input, error) {
			in, now, err := a.clusterSource(ctx, documents)
			if err != nil {
				return in, err
			}
			if len(now.Queues) > 0 {
				seen = append(seen, now)
			}
			seen = seen[max(len(seen)-keptSamples, 0):]
			in.Usage = slices.Clone(seen)
			return in, nil
		}, nil
	}
}

// schedulerSource returns a source that reads the latest decisions of a scheduler, with the
// credentials of the kubeconfig. It remembers the decisions that it has read.
func (a *asking) schedulerSource(scheduler schedulerEndpoint) (inputSource, error) {
	client, where, err := a.schedulerClient(scheduler)
	if err != nil {
		return nil, err
	}
	var kept []report.Entry
	var ends []decisionlog.WaitEnd
	return func(ctx context.Context) (report.Input, error) {
		beside := report.Beside{WaitEnd: func(end *decisionlog.WaitEnd) { ends = rememberEnd(ends, end) }}
		records, source, err := askScheduler(ctx, client, where, beside)
		if err != nil {
			return report.Input{}, err
		}
		entries := make([]report.Entry, 0, len(records))
		for i := range records {
			entries = append(entries, report.FromRecord(&records[i]))
		}
		kept = remember(kept, entries)
		source.Decisions = len(kept)
		return report.Input{Entries: slices.Clone(kept), Ends: slices.Clone(ends), Sources: []report.Source{source}, NoUsage: noUsageOfScheduler}, nil
	}, nil
}

// schedulerClient returns an HTTP client for a scheduler, with the credentials of the kubeconfig.
// It also returns the URL of the scheduler's decisions.
func (a *asking) schedulerClient(scheduler schedulerEndpoint) (*http.Client, string, error) {
	at, err := url.Parse(scheduler.url)
	if err != nil || at.Scheme != "https" || at.Host == "" {
		return nil, "", usage(fmt.Errorf("--scheduler %q: it is a URL such as https://127.0.0.1:10259", scheduler.url))
	}
	config, err := a.kube.ToRESTConfig()
	if err != nil {
		return nil, "", usage(fmt.Errorf("kubeconfig: %w", err))
	}
	config = rest.CopyConfig(config)
	config.Host, config.Timeout = at.Host, 30*time.Second
	config.ServerName, config.CAData, config.CAFile = "", nil, scheduler.authority
	ip := net.ParseIP(at.Hostname())
	isHere := at.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
	if isHere {
		// The kubeconfig's proxy is for the API server. It cannot reach a port of this machine.
		config.Proxy = func(*http.Request) (*url.URL, error) { return nil, nil }
	}
	if scheduler.authority == "" {
		// A scheduler usually signs its own certificate, so no known authority can verify it. On
		// this machine, skip the verification. For another machine, require the authority, because
		// the client sends the caller's token.
		if !isHere {
			return nil, "", usage(fmt.Errorf("--scheduler %s is another machine: name its authority with --scheduler-certificate-authority, or forward its port to this one", scheduler.url))
		}
		config.Insecure = true
	}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, "", usage(fmt.Errorf("--scheduler: %w", err))
	}
	return client, "https://" + at.Host + decisionsPath, nil
}

// askScheduler reads the latest decisions from a scheduler.
func askScheduler(ctx context.Context, client *http.Client, where string, beside report.Beside) ([]decisionlog.Record, report.Source, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, where, http.NoBody)
	if err != nil {
		return nil, report.Source{}, err
	}
	answer, err := client.Do(request)
	if err != nil {
		return nil, report.Source{}, err
	}
	defer func() { _ = answer.Body.Close() }()
	switch answer.StatusCode {
	case http.StatusOK:
	case http.StatusUnauthorized, http.StatusForbidden:
		return nil, report.Source{}, &codedError{exitForbidden, fmt.Errorf("you may not read %s; ask for the ClusterRole reprieve-decisions-reader, with a token in the kubeconfig", where)}
	default:
		said, _ := io.ReadAll(io.LimitReader(answer.Body, 200))
		return nil, report.Source{}, &codedError{exitUnreachable, fmt.Errorf("%s answers %s: %s", where, answer.Status, strings.TrimSpace(string(said)))}
	}
	records, source, err := report.ReadRecords(where, answer.Body, beside)
	if isEmpty(err) {
		err = nil
	}
	return records, source, err
}

// remember merges new entries into the known entries. A new entry replaces a known entry with the
// same ID. The oldest entries are dropped.
func remember(known, more []report.Entry) []report.Entry {
	at := make(map[string]int, len(known))
	for i := range known {
		at[known[i].ID] = i
	}
	for i := range more {
		if was, ok := at[more[i].ID]; ok {
			known[was] = more[i]
			continue
		}
		known = append(known, more[i])
	}
	return known[max(len(known)-keptDecisions, 0):]
}

// rememberEnd adds the end of a wait to the known ends, if it is new, and drops the oldest ends.
func rememberEnd(known []decisionlog.WaitEnd, end *decisionlog.WaitEnd) []decisionlog.WaitEnd {
	if slices.ContainsFunc(known, func(k decisionlog.WaitEnd) bool { return k.Process == end.Process && k.Sequence == end.Sequence }) {
		return known
	}
	known = append(known, *end)
	return known[max(len(known)-keptDecisions, 0):]
}

// clusterSource reads the state of a live cluster. The input has the preemptions in statuses and
// events, the queues and the waiting work. It also has the map of the GPUs, with the effects of the
// planned manifests. The sample has the current usage of the queues.
func (a *asking) clusterSource(ctx context.Context, planned []manifest.Document) (report.Input, report.Sample, error) {
	shown := newProgress(io.Discard, a.clock)
	defer shown.end()
	asked, err := a.gather(ctx, shown)
	if err != nil {
		return report.Input{}, report.Sample{}, err
	}
	found, err := a.preemptions(ctx, asked.objects, "", nil)
	if err != nil {
		return report.Input{}, report.Sample{}, err
	}
	queues, err := queuesOf(asked.objects)
	if err != nil {
		return report.Input{}, report.Sample{}, err
	}
	parties, err := partiesOf(ctx, asked)
	if err != nil {
		return report.Input{}, report.Sample{}, err
	}
	now, err := standingNow(asked.objects)
	if err != nil {
		return report.Input{}, report.Sample{}, err
	}
	in := report.Input{Entries: entriesOf(found, parties), Queues: queues, Note: noteCluster}
	if in.Waiting, err = waitersOf(asked, parties); err != nil {
		return in, now, err
	}
	in.Map, err = a.mapOf(ctx, asked, parties, planned)
	return in, now, err
}

// partiesOf returns the workloads in the cluster, with their queues. The keys have the same format
// as the field Victim of a happening.
func partiesOf(ctx context.Context, asked *question) (map[string]report.Party, error) {
	groups, err := ownGroups(asked.objects)
	if err != nil {
		return nil, err
	}
	pods, err := inventory.Decode[*corev1.Pod](asked.objects, inventory.Pods)
	if err != nil {
		return nil, err
	}
	cluster, err := whatif.New(ctx, asked.objects, asked.cfg)
	if err != nil {
		return nil, err
	}
	defer cluster.Close()
	out := make(map[string]report.Party, len(groups)+len(pods))
	members := make(map[types.NamespacedName]*corev1.Pod)
	for _, pod := range pods {
		if key, ok := cluster.GroupOf(pod); ok {
			members[key] = pod
		}
		out[unitName(pod.Namespace, pod.Name, false)] = report.Party{Priority: pod.Spec.Priority, Queue: cluster.QueueOfPlaced(pod)}
	}
	for _, pg := range groups {
		key := types.NamespacedName{Namespace: pg.Namespace, Name: pg.Name}
		out[unitName(pg.Namespace, pg.Name, true)] = report.Party{Priority: pg.Spec.Priority, Queue: cluster.QueueOfPlacedGroup(key, members[key])}
	}
	return out, nil
}

// entriesOf returns the entries of the report page for preemptions. Preemptions by one preemptor at
// one time are one entry.
func entriesOf(found []happening, parties map[string]report.Party) []report.Entry {
	type key struct {
		preemptor string
		at        time.Time
		byEvent   bool
	}
	at := make(map[key]int)
	var out []report.Entry
	for i := range slices.Backward(found) {
		h := &found[i]
		k := key{h.Preemptor, h.Time.Truncate(time.Second), h.Source == sourceEvent}
		n, ok := at[k]
		if !ok {
			n = len(out)
			at[k] = n
			id, message := h.Preemptor+"@"+k.at.Format(time.RFC3339), h.Message
			if k.byEvent {
				id, message = id+"@"+sourceEvent, accordingToEvent+": "+message
			}
			out = append(out, report.Entry{
				ID: id, Time: h.Time, Preemptor: party(h.Preemptor, parties),
				Outcome: core.Preempts, State: decisionlog.CarriedOut, Message: message,
			})
		}
		victim := party(h.Victim, parties)
		victim.Queue, _ = h.queueAmong(parties)
		stop := report.Stop{Party: victim, Rule: h.Rule}
		if !victim.Group {
			stop.Pods = []core.VictimPod{{Namespace: victim.Namespace, Name: victim.Name}}
		}
		out[n].Stops = append(out[n].Stops, stop)
	}
	return out
}

// party returns the workload that a happening names. known has the workloads of the cluster.
func party(name string, known map[string]report.Party) report.Party {
	kind, rest, _ := strings.Cut(name, " ")
	p := known[name]
	isTree := strings.EqualFold(kind, kindComposite)
	p.Group = isTree || kind == "podgroup"
	switch p.Namespace, p.Name, _ = strings.Cut(rest, "/"); {
	case p.Name == "":
		p.Name = "not told"
	case isTree:
		p.Name = gang.TreeKey(p.Namespace, p.Name).Name
	}
	return p
}
