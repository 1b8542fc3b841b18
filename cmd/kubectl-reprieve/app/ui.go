package app

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/reprieve-dev/reprieve/internal/report"
)

const (
	// loopback is the only address that the server of ui listens on.
	loopback = "127.0.0.1"
	// freshFor is the time that the server reuses a report. Pages request the report more often
	// than that.
	freshFor = 15 * time.Second
	// headerTimeout is the maximum time to read the headers of a request.
	headerTimeout = 10 * time.Second
)

func (a *asking) uiCommand() *cobra.Command {
	port, from := 0, schedulerEndpoint{}
	var plan []string
	cmd := &cobra.Command{
		Use:   "ui [FILE...]",
		Short: "Serve the page of \"report\", live, on 127.0.0.1",
		Long: `Serve the page of "report" on 127.0.0.1 until it is interrupted, and keep it up to date. It shows the files of a decision log; or,
with --scheduler, the latest decisions that the scheduler has in memory; or, with neither, the preemptions of which the cluster's statuses
and events tell, the work that waits, and a map of the GPUs: with --plan also as the work of a manifest would leave it. Everything is read with your kubeconfig; nothing is installed and nothing is written. Who opens the page needs the
whole URL, which has a secret in it.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if port < 0 || port > 65535 {
				return usage(fmt.Errorf("--port %d: it is between 0 and 65535", port))
			}
			if len(args) > 0 && from.url != "" {
				return usage(errors.New("files and --scheduler: name one of the two"))
			}
			source, err := a.liveSource(args, from, plan)
			if err != nil {
				return err
			}
			return a.serve(cmd.Context(), port, source)
		},
	}
	flags := cmd.Flags()
	flags.IntVar(&port, "port", 0, "The port on 127.0.0.1; 0 for any that is free.")
	flags.StringArrayVar(&plan, "plan", nil, "Manifests to plan on the cluster, for the map to show before and after; again for more.")
	from.addFlags(flags)
	return cmd
}

// serve runs the server of ui until ctx is done.
func (a *asking) serve(ctx context.Context, port int, source inputSource) error {
	// Read the input once before the server starts, so that errors appear on the command line.
	pages := &pages{source: source, asking: a, secret: rand.Text()}
	if _, err := pages.report(ctx); err != nil {
		return err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort(loopback, strconv.Itoa(port)))
	if err != nil {
		return usage(fmt.Errorf("--port: %w", err))
	}
	pages.host = listener.Addr().String()
	server := &http.Server{Handler: pages, ReadHeaderTimeout: headerTimeout}
	ended := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer ended()
	if _, err := fmt.Fprintf(a.streams.Out, "Serving on http://%s/%s/ until interrupted\n", pages.host, pages.secret); err != nil {
		return errors.Join(err, listener.Close())
	}
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve: %w", err)
	}
	return nil
}

// inputSource reads the input of a report.
type inputSource func(ctx context.Context) (report.Input, error)

// pages is the HTTP handler of ui. It serves the page and its data to requests with the secret.
type pages struct {
	source       inputSource
	asking       *asking
	host, secret string

	mu    sync.Mutex
	made  *report.Report
	until time.Time
}

// report returns the report. It builds a new one only if the last one is older than freshFor.
func (p *pages) report(ctx context.Context) (*report.Report, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if now := p.asking.clock.Now(); p.made == nil || !now.Before(p.until) {
		in, err := p.source(ctx)
		if err != nil {
			return nil, err
		}
		p.made, p.until = report.Build(in), now.Add(freshFor)
	}
	return p.made, nil
}

// ServeHTTP implements http.Handler.
func (p *pages) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	for name, value := range map[string]string{
		"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY",
		"Referrer-Policy": "no-referrer", "Cross-Origin-Resource-Policy": "same-origin", "Cross-Origin-Opener-Policy": "same-origin",
	} {
		header.Set(name, value)
	}
	if why := p.refuses(r); why != "" {
		http.Error(w, why, http.StatusForbidden)
		return
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		header.Set("Allow", "GET, HEAD")
		http.Error(w, "ask with GET", http.StatusMethodNotAllowed)
		return
	}
	path, known := strings.CutPrefix(r.URL.Path, "/"+p.secret+"/")
	if !known || path != "" && path != "data.json" {
		http.Error(w, "open the whole URL that kubectl reprieve ui has printed", http.StatusNotFound)
		return
	}
	made, err := p.report(r.Context())
	if err != nil {
		http.Error(w, oneLine(err), http.StatusBadGateway)
		return
	}
	var body bytes.Buffer
	if path == "" {
		header.Set("Content-Type", "text/html; charset=utf-8")
		err = report.Write(&body, made, report.Live)
	} else {
		header.Set("Content-Type", "application/json")
		var data []byte
		data, err = report.Encode(made)
		body.Write(data)
	}
	if err != nil {
		http.Error(w, oneLine(err), http.StatusInternalServerError)
		return
	}
	// Ignore the error: the browser has disconnected.
	_, _ = w.Write(body.Bytes())
}

// refuses returns the reason to reject a request; "" for none. It rejects requests that another
// site causes in the user's browser, in two ways:
//
//   - The site's host name resolves to this machine. The request then has the site's host name.
//   - A page of the site sends the request to this machine. The request then has the site's origin.
func (p *pages) refuses(r *http.Request) string {
	_, port, err := net.SplitHostPort(p.host)
	if err != nil || r.Host != p.host && r.Host != net.JoinHostPort("localhost", port) {
		return "this host is not served"
	}
	if origin := r.Header.Get("Origin"); origin != "" {
		if u, err := url.Parse(origin); err != nil || u.Scheme != "http" || u.Host != r.Host {
			return "other origins are not served"
		}
	}
	switch r.Header.Get("Sec-Fetch-Site") {
	case "cross-site", "same-site":
		// A link on another site may open the page. Other requests from another site are rejected,
		// so that it cannot read the page.
		if r.Header.Get("Sec-Fetch-Mode") != "navigate" {
			return "other origins are not served"
		}
	}
	return ""
}
