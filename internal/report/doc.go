// Package report makes one page of a record of decisions: who stopped what, when and by which rule, what that lost, and where
// it went round in circles.
//
// It works in three steps. [Read] reads files of decisionlog's lines, passing over those that are broken; what is known of
// preemptions from elsewhere (statuses and events, say) comes as an [Entry] as well. [Build] makes a [Report] of them, which has
// all sums and findings: it is a value with a JSON form, and the same entries make the same one. [Write] puts that into the page,
// which is one HTML file that needs nothing else.
//
// The page only draws. Its sources are in web/, and make web builds them into page/, which is embedded here.
package report
